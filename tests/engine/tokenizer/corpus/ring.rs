use std::collections::HashMap;
use std::fmt::{self, Display};

/// A ring buffer of fixed capacity; the oldest value makes room.
#[derive(Debug, Clone)]
pub struct Ring<T> {
    slots: Vec<Option<T>>,
    head: usize,
    len: usize,
}

impl<T: Clone + Display> Ring<T> {
    pub fn with_capacity(capacity: usize) -> Self {
        assert!(capacity > 0, "a ring needs at least one slot");
        Self { slots: vec![None; capacity], head: 0, len: 0 }
    }

    pub fn push(&mut self, value: T) -> Option<T> {
        let at = (self.head + self.len) % self.slots.len();
        let old = self.slots[at].replace(value);
        if self.len == self.slots.len() {
            self.head = (self.head + 1) % self.slots.len();
        } else {
            self.len += 1;
        }
        old
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> + '_ {
        (0..self.len).filter_map(move |i| self.slots[(self.head + i) % self.slots.len()].as_ref())
    }
}

impl<T: Clone + Display> fmt::Display for Ring<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, value) in self.iter().enumerate() {
            write!(f, "{}{value}", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

pub fn count_words<'a>(text: &'a str) -> HashMap<&'a str, u32> {
    text.split_whitespace().fold(HashMap::new(), |mut counts, word| {
        *counts.entry(word).or_insert(0) += 1;
        counts
    })
}
