import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** A service that collects audit events per thread. Its threads belong to a pool, so they and their events stay. */
public class App {
    static class AuditEvent {
        final String action;
        final byte[] payload;

        AuditEvent(String action, byte[] payload) {
            this.action = action;
            this.payload = payload;
        }
    }

    static class AuditTrail {
        static final ThreadLocal<List<AuditEvent>> EVENTS = ThreadLocal.withInitial(ArrayList::new);

        static void recordEvent(String action, byte[] payload) {
            EVENTS.get().add(new AuditEvent(action, payload));
        }

        static int size() {
            return EVENTS.get().size();
        }
    }

    static void handleTransfer(int number, Map<Integer, String> accounts) {
        Random random = new Random(number);
        byte[] payload = new byte[400 + random.nextInt(800)];
        random.nextBytes(payload);
        AuditTrail.recordEvent("transfer " + number + " from " + accounts.get(number % accounts.size()), payload);
        AuditTrail.recordEvent("transfer " + number + " done", new byte[64]);
    }

    static Map<Integer, String> loadAccounts(int count) {
        Map<Integer, String> accounts = new HashMap<>();
        for (int i = 0; i < count; i++) {
            accounts.put(i, "account " + i + " at the branch " + i % 300);
        }
        return accounts;
    }

    public static void main(String[] arguments) throws InterruptedException {
        Map<Integer, String> accounts = loadAccounts(150_000);
        ExecutorService pool = Executors.newFixedThreadPool(4);
        System.out.println("ready");
        long end = System.nanoTime() + 120_000_000_000L;
        for (int number = 0; System.nanoTime() < end; number++) {
            int transfer = number;
            pool.execute(() -> handleTransfer(transfer, accounts));
            Thread.sleep(1);
        }
        pool.shutdownNow();
    }
}
