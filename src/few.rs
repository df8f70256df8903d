//! A list that nearly always holds nothing or one thing, and then needs no memory of its own.

/// Things in the order they were added.
pub(crate) enum Few<T> {
    One(T),
    /// None, or many. (Boxed, and not a third variant, so that it is no larger than one thing: a task, a
    /// future or a source holds several of these.)
    #[expect(clippy::box_collection)]
    Others(Option<Box<Vec<T>>>),
}

impl<T> Default for Few<T> {
    fn default() -> Few<T> {
        Few::NONE
    }
}

impl<T> Few<T> {
    pub(crate) const NONE: Few<T> = Few::Others(None);

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // (Many are never none: see `remove`.)
        matches!(self, Few::Others(None))
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        match self {
            Few::One(one) => std::slice::from_ref(one),
            Few::Others(many) => many.as_ref().map_or(&[], |many| many.as_slice()),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, thing: T) {
        match self {
            Few::Others(None) => *self = Few::One(thing),
            Few::Others(Some(many)) => many.push(thing),
            Few::One(_) => {
                if let Few::One(first) = self.take() {
                    *self = Few::Others(Some(Box::new(vec![first, thing])));
                }
            }
        }
    }

    /// Takes out the one thing that `is_it` accepts.
    #[inline]
    pub(crate) fn remove(&mut self, is_it: impl Fn(&T) -> bool) -> Option<T> {
        match self {
            Few::Others(None) => None,
            Few::One(one) if !is_it(one) => None,
            Few::One(_) => match self.take() {
                Few::One(one) => Some(one),
                Few::Others(_) => None,
            },
            Few::Others(Some(many)) => {
                let removed = remove_from(many, is_it);
                if many.is_empty() {
                    *self = Few::NONE;
                }
                removed
            }
        }
    }

    /// Takes everything out.
    #[inline]
    pub(crate) fn take(&mut self) -> Few<T> {
        std::mem::replace(self, Few::NONE)
    }

    /// Calls `each` with every thing, in order.
    #[inline]
    pub(crate) fn for_each(self, mut each: impl FnMut(T)) {
        match self {
            Few::One(one) => each(one),
            Few::Others(many) => many.into_iter().flat_map(|many| *many).for_each(each),
        }
    }
}

/// It is looked for from both ends, for mostly the oldest or the newest goes.
pub(crate) fn remove_from<T>(things: &mut Vec<T>, is_it: impl Fn(&T) -> bool) -> Option<T> {
    let mut from_both_ends = (0..things.len()).map(|n| match n % 2 {
        0 => n / 2,
        _ => things.len() - 1 - n / 2,
    });
    let index = from_both_ends.find(|index| is_it(&things[*index]))?;
    Some(things.remove(index))
}

#[cfg(test)]
mod tests {
    use super::Few;

    #[test]
    fn keeps_the_order_through_pushes_and_removals() {
        let mut few = Few::NONE;
        (1..=4).for_each(|n| few.push(n));
        assert_eq!(few.remove(|n| *n == 2), Some(2));
        assert_eq!(few.remove(|n| *n == 9), None);
        assert_eq!(few.as_slice(), [1, 3, 4]);
        let mut seen = Vec::new();
        few.take().for_each(|n| seen.push(n));
        assert_eq!(seen, [1, 3, 4]);
        assert!(few.is_empty());
    }

    #[test]
    fn one_thing_can_be_removed_and_added_again() {
        let mut few = Few::NONE;
        few.push('a');
        assert_eq!(few.remove(|_| true), Some('a'));
        assert!(few.is_empty());
        few.push('b');
        assert_eq!(few.as_slice(), ['b']);
    }
}
