import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

/** A bank's ledger. Every transfer is written into an audit trail, a linked list that only grows. */
public class App {
    static class AuditEntry {
        final long time;
        final String user;
        final String action;
        final String[] before;
        final String[] after;

        AuditEntry(String user, String action, String[] before, String[] after) {
            this.time = System.currentTimeMillis();
            this.user = user;
            this.action = action;
            this.before = before;
            this.after = after;
        }
    }

    static class AuditTrail {
        private static class AuditNode {
            final AuditEntry entry;
            AuditNode newer;
            AuditNode older;

            AuditNode(AuditEntry entry) {
                this.entry = entry;
            }
        }

        private AuditNode oldestNode;
        private AuditNode newestNode;
        private long length;

        synchronized void appendEntry(AuditEntry entry) {
            AuditNode node = new AuditNode(entry);
            if (newestNode == null) {
                oldestNode = node;
            } else {
                node.older = newestNode;
                newestNode.newer = node;
            }
            newestNode = node;
            length++;
        }

        synchronized int countLast(int limit, String user) {
            int found = 0;
            AuditNode node = newestNode;
            for (int i = 0; i < limit && node != null; i++, node = node.older) {
                if (node.entry.user.equals(user)) {
                    found++;
                }
            }
            return found;
        }
    }

    static class Account {
        final String number;
        final String owner;
        final List<String> lastStatements = new ArrayList<>(4);
        private long cents;

        Account(int index, Random random) {
            number = String.format("DE%020d", 1_000_003L * index);
            owner = "owner " + index + " from the branch " + index % 340;
            cents = random.nextInt(100_000_000);
            for (int i = 0; i < 3; i++) {
                lastStatements.add("statement " + i + ", balance " + random.nextInt(1_000_000));
            }
        }

        synchronized long add(long change) {
            cents += change;
            return cents;
        }

        String[] describe() {
            String[] fields = new String[5];
            fields[0] = "number: " + number;
            fields[1] = "owner: " + owner;
            fields[2] = "balance in cents: " + cents;
            fields[3] = "statement: " + lastStatements.get(0);
            fields[4] = "limit in cents: " + (cents / 2 + 10_000) + ", reviewed by the branch";
            return fields;
        }
    }

    static class AccountStore {
        private final Map<String, Account> byNumber = new HashMap<>();
        private final List<Account> all = new ArrayList<>();

        AccountStore(int count, Random random) {
            for (int i = 0; i < count; i++) {
                Account account = new Account(i, random);
                byNumber.put(account.number, account);
                all.add(account);
            }
        }

        Account any(Random random) {
            return byNumber.get(all.get(random.nextInt(all.size())).number);
        }
    }

    static class FraudRules {
        interface Check {
            boolean suspicious(Account from, Account to, long cents);
        }

        private final List<Check> checks = new ArrayList<>();
        private final Map<String, String> blockedAccounts = new HashMap<>();

        FraudRules() {
            for (int i = 0; i < 30_000; i++) {
                blockedAccounts.put("XX" + i * 17L, "blocked by the order " + i);
            }
            checks.add((from, to, cents) -> cents > 4_900_000);
            checks.add((from, to, cents) -> blockedAccounts.containsKey(to.number));
            checks.add((from, to, cents) -> from == to);
        }

        boolean accepts(Account from, Account to, long cents) {
            return checks.stream().noneMatch(check -> check.suspicious(from, to, cents));
        }
    }

    static class Ledger {
        private final AccountStore accounts;
        private final FraudRules rules = new FraudRules();
        private final AuditTrail trail = new AuditTrail();
        private final AtomicLong refused = new AtomicLong();

        Ledger(AccountStore accounts) {
            this.accounts = accounts;
        }

        void recordTransfer(String user, Account from, String[] before) {
            trail.appendEntry(new AuditEntry(user, "transfer from " + from.number, before, from.describe()));
        }

        String handleTransfer(Random random) {
            Account from = accounts.any(random);
            Account to = accounts.any(random);
            long cents = random.nextInt(5_000_000);
            String user = "clerk " + random.nextInt(300);
            if (!rules.accepts(from, to, cents)) {
                refused.incrementAndGet();
                return "refused";
            }
            String[] before = from.describe();
            from.add(-cents);
            to.add(cents);
            recordTransfer(user, from, before);
            StringBuilder receipt = new StringBuilder("transfers of late: " + trail.countLast(50, user));
            for (int copy = 0; copy < 25; copy++) {
                receipt.append("\ncopy ").append(copy).append(": ").append(cents).append(" cents from ")
                        .append(from.owner).append(" to ").append(to.owner).append(", ").append(to.number);
            }
            return receipt.toString();
        }
    }

    static void work(Ledger ledger, int seed, long end, AtomicLong printed, CountDownLatch done) {
        Random random = new Random(seed);
        try {
            while (System.nanoTime() < end) {
                printed.addAndGet(ledger.handleTransfer(random).length());
                Thread.sleep(4);
            }
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        } finally {
            done.countDown();
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        Ledger ledger = new Ledger(new AccountStore(60_000, new Random(2)));
        System.out.println("ready");
        long end = System.nanoTime() + 120_000_000_000L;
        AtomicLong printed = new AtomicLong();
        CountDownLatch done = new CountDownLatch(4);
        for (int i = 0; i < 4; i++) {
            int seed = 30 + i;
            new Thread(() -> work(ledger, seed, end, printed, done), "teller-" + i).start();
        }
        done.await();
        System.out.println("printed " + printed);
    }
}
