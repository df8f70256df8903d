//! Several errors as one.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use super::Exception;

/// Several exceptions raised together (Python's `ExceptionGroup`): what a
/// [`TaskGroup`](crate::TaskGroup) raises when tasks in it have failed.
///
/// ```
/// use miniloop::{Exception, ExceptionGroup};
///
/// let inner = ExceptionGroup::new("inner", vec![Exception::new("c")]);
/// let group = ExceptionGroup::new("outer", vec![Exception::new("a"), inner.into()]);
/// assert_eq!(group.exceptions().len(), 2);
/// let leaves: Vec<_> = group.leaves().map(|leaf| leaf.to_string()).collect();
/// assert_eq!(leaves, ["a", "c"]);
/// assert_eq!(group.to_string(), "outer (2 sub-exceptions): a; inner (1 sub-exception): c");
/// ```
#[derive(Clone)]
pub struct ExceptionGroup {
    message: Cow<'static, str>,
    exceptions: Vec<Exception>,
}

impl ExceptionGroup {
    /// A group of these exceptions.
    pub fn new(message: impl Into<Cow<'static, str>>, exceptions: Vec<Exception>) -> ExceptionGroup {
        ExceptionGroup {
            message: message.into(),
            exceptions,
        }
    }

    /// What the group is about.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The exceptions in it. Some may be groups.
    pub fn exceptions(&self) -> &[Exception] {
        &self.exceptions
    }

    /// All exceptions in it and in the groups in it, but for the groups themselves.
    pub fn leaves(&self) -> impl Iterator<Item = &Exception> {
        let mut rest: Vec<&Exception> = self.exceptions.iter().rev().collect();
        std::iter::from_fn(move || {
            loop {
                let exception = rest.pop()?;
                match exception.downcast_ref::<ExceptionGroup>() {
                    Some(group) => rest.extend(group.exceptions.iter().rev()),
                    None => return Some(exception),
                }
            }
        })
    }

    /// Splits it in those leaves that `belongs` accepts and the rest, the nesting kept; a side
    /// that would be empty is `None` (`ExceptionGroup.split`, which is what `except*` does).
    ///
    /// ```
    /// use miniloop::{Exception, ExceptionGroup, TimeoutError};
    ///
    /// let group = ExceptionGroup::new("all", vec![TimeoutError::new().into(), Exception::new("bug")]);
    /// let (timeouts, rest) = group.split(|exception| exception.is::<TimeoutError>());
    /// assert_eq!(timeouts.unwrap().exceptions().len(), 1);
    /// assert_eq!(rest.unwrap().exceptions()[0].to_string(), "bug");
    /// ```
    pub fn split(
        &self,
        mut belongs: impl FnMut(&Exception) -> bool,
    ) -> (Option<ExceptionGroup>, Option<ExceptionGroup>) {
        self.split_by(&mut belongs)
    }

    fn split_by(
        &self,
        belongs: &mut dyn FnMut(&Exception) -> bool,
    ) -> (Option<ExceptionGroup>, Option<ExceptionGroup>) {
        let (mut yes, mut no) = (Vec::new(), Vec::new());
        for exception in &self.exceptions {
            if let Some(group) = exception.downcast_ref::<ExceptionGroup>() {
                let (some, others) = group.split_by(belongs);
                yes.extend(some.map(Exception::from));
                no.extend(others.map(Exception::from));
            } else if belongs(exception) {
                yes.push(exception.clone());
            } else {
                no.push(exception.clone());
            }
        }
        let part = |exceptions: Vec<Exception>| {
            (!exceptions.is_empty()).then(|| ExceptionGroup::new(self.message.clone(), exceptions))
        };
        (part(yes), part(no))
    }
}

impl fmt::Debug for ExceptionGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExceptionGroup")
            .field(&self.message)
            .field(&self.exceptions)
            .finish()
    }
}

impl fmt::Display for ExceptionGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.exceptions.len();
        let s = if count == 1 { "" } else { "s" };
        write!(f, "{} ({count} sub-exception{s})", self.message)?;
        for (index, exception) in self.exceptions.iter().enumerate() {
            let before = if index == 0 { ": " } else { "; " };
            write!(f, "{before}{exception}")?;
        }
        Ok(())
    }
}

impl Error for ExceptionGroup {}
