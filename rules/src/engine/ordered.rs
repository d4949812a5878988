//! A list whose entries keep their place for ever and are walked in the order of their keys.

/// What an entry is ordered by.
pub(crate) trait Keyed {
    /// The node, empty for none, and the labels.
    fn key(&self) -> (&str, &str);
}

/// The list. Entries are added seldom and walked often.
#[derive(Debug)]
pub(crate) struct Ordered<T> {
    entries: Vec<T>,
    order: Vec<usize>,
}

impl<T> Default for Ordered<T> {
    fn default() -> Ordered<T> {
        Ordered { entries: Vec::new(), order: Vec::new() }
    }
}

impl<T: Keyed> Ordered<T> {
    /// The place of the entry with a key, and whether it is made for it now.
    pub(crate) fn place(&mut self, key: (&str, &str), make: impl FnOnce() -> T) -> (usize, bool) {
        match self.order.binary_search_by(|&place| self.entries[place].key().cmp(&key)) {
            Ok(at) => (self.order[at], false),
            Err(at) => {
                self.entries.push(make());
                let place = self.entries.len() - 1;
                self.order.insert(at, place);
                (place, true)
            }
        }
    }
}

impl<T> Ordered<T> {
    pub(crate) const fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        self.entries.get(place)
    }

    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        self.entries.get_mut(place)
    }

    /// The place of the nth in order.
    pub(crate) fn nth(&self, nth: usize) -> usize {
        self.order[nth]
    }

    /// In order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.order.iter().map(|&place| &self.entries[place])
    }

    /// In any order.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut()
    }
}
