//! What can be gathered: a `Vec`, an array, a tuple.

use std::future::Future as StdFuture;

use crate::errors::Result;
use crate::loop_core::LoopHandle;
use crate::waiting::{AnyChild, Child, LoopChoice};

/// The children of a gather, once coroutines have become tasks.
pub(crate) trait Children: 'static {
    type Output: 'static;
    type Results: 'static;

    fn count(&self) -> usize;
    /// One of them; `index` is less than the count.
    fn get(&self, index: usize) -> &dyn AnyChild;
    fn each(&self, mut visit: impl FnMut(&dyn AnyChild)) {
        (0..self.count()).for_each(|index| visit(self.get(index)));
    }
    /// The results of all, which are done; or the first error.
    fn output(self) -> Result<Self::Output>;
    /// What each has come to.
    fn results(self) -> Self::Results;
}

/// Keeps `Gather` from being implemented elsewhere.
pub(crate) trait Awaitables {
    type Children: Children;

    fn see(&self, choice: &mut LoopChoice);
    /// Makes tasks of the coroutines.
    fn begin(self, event_loop: &LoopHandle) -> Self::Children;
}

/// What [`gather`](crate::gather) and [`gather_results`](crate::gather_results) take: a `Vec` or
/// an array of awaitables of one type, or a tuple of one to twelve.
#[expect(private_bounds, reason = "it is not for others to implement")]
pub trait Gather:
    Awaitables<Children: Children<Output = <Self as Gather>::Output, Results = <Self as Gather>::Results>>
{
    /// The results together: a `Vec`, or a tuple.
    type Output: 'static;
    /// The same with a [`Result`](crate::Result) for each.
    type Results: 'static;
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> Children for Vec<Child<T, F>> {
    type Output = Vec<T>;
    type Results = Vec<Result<T>>;

    fn count(&self) -> usize {
        self.len()
    }

    fn get(&self, index: usize) -> &dyn AnyChild {
        &self[index]
    }

    fn output(self) -> Result<Vec<T>> {
        self.into_iter().map(Child::outcome).collect()
    }

    fn results(self) -> Vec<Result<T>> {
        self.into_iter().map(Child::outcome).collect()
    }
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> Awaitables for Vec<F> {
    type Children = Vec<Child<T, F>>;

    fn see(&self, choice: &mut LoopChoice) {
        self.iter().for_each(|awaitable| choice.see::<T>(awaitable));
    }

    fn begin(self, event_loop: &LoopHandle) -> Vec<Child<T, F>> {
        self.into_iter()
            .map(|awaitable| Child::new(event_loop, awaitable))
            .collect()
    }
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> Gather for Vec<F> {
    type Output = Vec<T>;
    type Results = Vec<Result<T>>;
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static, const N: usize> Awaitables for [F; N] {
    type Children = Vec<Child<T, F>>;

    fn see(&self, choice: &mut LoopChoice) {
        self.iter().for_each(|awaitable| choice.see::<T>(awaitable));
    }

    fn begin(self, event_loop: &LoopHandle) -> Vec<Child<T, F>> {
        Vec::from(self).begin(event_loop)
    }
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static, const N: usize> Gather for [F; N] {
    type Output = Vec<T>;
    type Results = Vec<Result<T>>;
}

/// Implements `Gather` for a tuple: for each member the type of its result, its own, its place.
macro_rules! gather_tuple {
    ($($value:ident $awaitable:ident $place:tt),+) => {
        impl<$($value: 'static, $awaitable: StdFuture<Output = Result<$value>> + 'static),+> Children
            for ($(Child<$value, $awaitable>,)+)
        {
            type Output = ($($value,)+);
            type Results = ($(Result<$value>,)+);

            fn count(&self) -> usize {
                [$($place),+].len()
            }

            fn get(&self, index: usize) -> &dyn AnyChild {
                let children: &[&dyn AnyChild] = &[$(&self.$place),+];
                children[index]
            }

            fn output(self) -> Result<Self::Output> {
                Ok(($(self.$place.outcome()?,)+))
            }

            fn results(self) -> Self::Results {
                ($(self.$place.outcome(),)+)
            }
        }

        impl<$($value: 'static, $awaitable: StdFuture<Output = Result<$value>> + 'static),+> Awaitables
            for ($($awaitable,)+)
        {
            type Children = ($(Child<$value, $awaitable>,)+);

            fn see(&self, choice: &mut LoopChoice) {
                $(choice.see::<$value>(&self.$place);)+
            }

            fn begin(self, event_loop: &LoopHandle) -> Self::Children {
                ($(Child::new(event_loop, self.$place),)+)
            }
        }

        impl<$($value: 'static, $awaitable: StdFuture<Output = Result<$value>> + 'static),+> Gather
            for ($($awaitable,)+)
        {
            type Output = ($($value,)+);
            type Results = ($(Result<$value>,)+);
        }
    };
}

gather_tuple!(A FA 0);
gather_tuple!(A FA 0, B FB 1);
gather_tuple!(A FA 0, B FB 1, C FC 2);
gather_tuple!(A FA 0, B FB 1, C FC 2, D FD 3);
gather_tuple!(A FA 0, B FB 1, C FC 2, D FD 3, E FE 4);
gather_tuple!(A FA 0, B FB 1, C FC 2, D FD 3, E FE 4, G FG 5);
gather_tuple!(A FA 0, B FB 1, C FC 2, D FD 3, E FE 4, G FG 5, H FH 6);
gather_tuple!(A FA 0, B FB 1, C FC 2, D FD 3, E FE 4, G FG 5, H FH 6, I FI 7);
gather_tuple!(A FA 0, B FB 1, C FC 2, D FD 3, E FE 4, G FG 5, H FH 6, I FI 7, J FJ 8);
gather_tuple!(A FA 0, B FB 1, C FC 2, D FD 3, E FE 4, G FG 5, H FH 6, I FI 7, J FJ 8, K FK 9);
gather_tuple!(A FA 0, B FB 1, C FC 2, D FD 3, E FE 4, G FG 5, H FH 6, I FI 7, J FJ 8, K FK 9, L FL 10);
gather_tuple!(A FA 0, B FB 1, C FC 2, D FD 3, E FE 4, G FG 5, H FH 6, I FI 7, J FJ 8, K FK 9, L FL 10, M FM 11);
