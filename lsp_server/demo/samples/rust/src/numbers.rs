//! Summaries of a list of numbers.

/// Mean of the values, or `None` when there are none.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

/// Middle value, or the mean of the two middle ones.
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.total_cmp(b));
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 0 {
        Some((sorted[middle - 1] + sorted[middle]) / 2.0)
    } else {
        Some(sorted[middle])
    }
}

/// Smallest and largest value.
pub fn range(values: &[f64]) -> Option<(f64, f64)> {
    let first = *values.first()?;
    let mut bounds = (first, first);
    for &value in values {
        bounds.0 = bounds.0.min(value);
        bounds.1 = bounds.1.max(value);
    }
    Some(bounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_an_even_count_is_between() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(range(&[4.0, 1.0, 3.0]), Some((1.0, 4.0)));
    }
}
