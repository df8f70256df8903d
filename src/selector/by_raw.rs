//! The sources by the system's name for them, which is also what it reports.

#[cfg(windows)]
use std::collections::HashMap;

#[cfg(unix)]
use slotmap::Key;

use super::poller::Raw;
use crate::handles::SourceKey;

/// The key of each source that is entered. A descriptor is small, for a new one is the lowest number that is
/// free: so on Unix this is a list.
#[derive(Default)]
pub(super) struct ByRaw {
    #[cfg(unix)]
    keys: Vec<SourceKey>,
    #[cfg(windows)]
    keys: HashMap<Raw, SourceKey>,
}

#[cfg(unix)]
impl ByRaw {
    #[inline]
    pub(super) fn get(&self, raw: Raw) -> Option<SourceKey> {
        let key = self.keys.get(raw as usize).copied();
        key.filter(|key| !key.is_null())
    }

    pub(super) fn insert(&mut self, raw: Raw, key: SourceKey) {
        let index = raw as usize;
        if self.keys.len() <= index {
            self.keys.resize(index + 1, SourceKey::null());
        }
        self.keys[index] = key;
    }

    pub(super) fn remove(&mut self, raw: Raw) {
        if let Some(key) = self.keys.get_mut(raw as usize) {
            *key = SourceKey::null();
        }
    }
}

#[cfg(windows)]
impl ByRaw {
    pub(super) fn get(&self, raw: Raw) -> Option<SourceKey> {
        self.keys.get(&raw).copied()
    }

    pub(super) fn insert(&mut self, raw: Raw, key: SourceKey) {
        self.keys.insert(raw, key);
    }

    pub(super) fn remove(&mut self, raw: Raw) {
        self.keys.remove(&raw);
    }
}
