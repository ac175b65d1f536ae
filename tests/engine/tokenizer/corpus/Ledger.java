package example.ledger;

import java.math.BigDecimal;
import java.time.LocalDate;
import java.util.*;
import java.util.stream.Collectors;

/** A ledger that never loses a cent. */
public final class Ledger {
    public record Entry(LocalDate date, String account, BigDecimal amount) {}

    private final List<Entry> entries = new ArrayList<>();

    public void post(Entry... batch) {
        BigDecimal sum = Arrays.stream(batch).map(Entry::amount).reduce(BigDecimal.ZERO, BigDecimal::add);
        if (sum.signum() != 0) {
            throw new IllegalArgumentException("unbalanced by " + sum.toPlainString());
        }
        entries.addAll(List.of(batch));
    }

    public Map<String, BigDecimal> balances(LocalDate until) {
        return entries.stream()
                .filter(e -> !e.date().isAfter(until))
                .collect(Collectors.groupingBy(Entry::account, TreeMap::new,
                        Collectors.reducing(BigDecimal.ZERO, Entry::amount, BigDecimal::add)));
    }

    @Override
    public String toString() {
        return "Ledger[" + entries.size() + "]";
    }
}
