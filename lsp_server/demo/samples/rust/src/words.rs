//! Counting the words of a text.

use std::collections::HashMap;

/// How often each word occurs, without regard to case.
pub fn count_words(text: &str) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word.to_lowercase()).or_insert(0) += 1;
    }
    counts
}

/// The `limit` most frequent words; words of equal count in alphabetical order.
pub fn most_frequent(text: &str, limit: usize) -> Vec<(String, usize)> {
    let mut words: Vec<_> = count_words(text).into_iter().collect();
    words.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    words.truncate(limit);
    words
}

/// The longest word; the first of several.
pub fn longest(text: &str) -> Option<&str> {
    let mut best: Option<&str> = None;
    for word in text.split_whitespace() {
        if best.map_or(true, |known| word.len() > known.len()) {
            best = Some(word);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_without_regard_to_case() {
        assert_eq!(most_frequent("the cat and The dog", 1), vec![("the".to_string(), 2)]);
        assert_eq!(longest("a bcd ef"), Some("bcd"));
    }
}
