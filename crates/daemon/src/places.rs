//! Places that those who ask share, so that nobody has all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::mutex::lock;
use crate::users::Origin;

/// So many places. An origin gets another one while it has fewer than are free, as a queue of a shared buffer does under a
/// dynamic threshold (Choudhury and Hahne, 1998): one alone has half of them at most, two have a third each, and whoever
/// comes with none finds one.
pub(crate) struct Places {
    all: usize,
    taken: Mutex<HashMap<Origin, usize>>,
}

/// A place, until it is dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    origin: Origin,
}

impl Places {
    pub(crate) fn new(all: usize) -> Arc<Self> {
        Arc::new(Self { all, taken: Mutex::default() })
    }

    /// A place for `origin`, if it may have one more.
    pub(crate) fn take(self: &Arc<Self>, origin: Origin) -> Option<Place> {
        self.take_if(origin, |own, free| own < free)
    }

    /// A place for what `origin` has not asked for yet: it has room for more requests then.
    pub(crate) fn take_spare(self: &Arc<Self>, origin: Origin) -> Option<Place> {
        self.take_if(origin, |own, free| own < free / 2)
    }

    fn take_if(self: &Arc<Self>, origin: Origin, may: impl FnOnce(usize, usize) -> bool) -> Option<Place> {
        let mut taken = lock(&self.taken);
        let free = self.all.saturating_sub(taken.values().sum());
        let own = taken.get(&origin).copied().unwrap_or(0);
        if !may(own, free) {
            return None;
        }
        taken.insert(origin, own + 1);
        Some(Place { places: self.clone(), origin })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.places.taken);
        if let Some(own) = taken.get_mut(&self.origin) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One has half of 16, two have five or six each, and a third finds a place still. All of them come back.
    #[test]
    fn nobody_has_all_places() {
        let places = Places::new(16);
        let [one, two, three] = [1, 2, 3].map(Origin::User);
        let take_all = |origin| std::iter::from_fn(|| places.take(origin)).collect::<Vec<_>>();
        let of_one = take_all(one);
        assert_eq!(of_one.len(), 8);
        let (of_two, of_three) = (take_all(two), take_all(three));
        assert_eq!((of_two.len(), of_three.len()), (4, 2));
        assert!(places.take(one).is_none());
        drop((of_one, of_two, of_three));
        assert!(lock(&places.taken).is_empty());
        let spare: Vec<_> = std::iter::from_fn(|| places.take_spare(one)).collect();
        assert_eq!((spare.len(), take_all(one).len()), (5, 3), "of eight, three are left for what it asks for");
        drop(spare);
        // In turns they have alike.
        let mut held = [Vec::new(), Vec::new()];
        for _ in 0..16 {
            for (held, origin) in held.iter_mut().zip([one, two]) {
                held.extend(places.take(origin));
            }
        }
        assert_eq!([held[0].len(), held[1].len()], [6, 5]);
        assert!(places.take(three).is_some());
    }
}
