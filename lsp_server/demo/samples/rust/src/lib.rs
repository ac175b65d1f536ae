//! Statistics of words and numbers in text files.

pub mod numbers;
pub mod words;
