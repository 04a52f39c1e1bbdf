// A fixed pool of eight threads; a request, one a connection, counts under a monitor or a ReentrantLock. A thread
// settles the counts every 560 ms. --fault monitor: it awaits a reply of 70 ms in a synchronized block. --fault lock:
// it computes 40 ms under the ReentrantLock. Healthy (monitor_outside, lock_outside): it does the same first and then
// takes the lock.
import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.ReentrantLock;

public class App {
    static final Object tillMonitor = new Object();
    static final ReentrantLock priceLock = new ReentrantLock();
    static final Map<String, String> settings = new HashMap<>(Map.of("port", "21000", "fault", "monitor_outside",
            "truth", "", "rate", "600", "connections", "8", "burst", "0", "secs", "120"));
    static volatile long sold;

    static void burn(long us) {
        for (long end = System.nanoTime() + us * 1000; System.nanoTime() < end;) sold++;
    }

    static boolean usesMonitor() {
        return settings.get("fault").startsWith("monitor");
    }

    static void confirmBalance(Socket bank) throws IOException {
        byte[] request = ByteBuffer.allocate(16).order(ByteOrder.LITTLE_ENDIAN).putLong(1).putLong(70).array();
        bank.getOutputStream().write(request);
        if (bank.getInputStream().readNBytes(16).length < 16) System.exit(0);
    }

    static void settleTill(Socket bank, boolean underLock) throws IOException {
        if (!underLock) confirmBalance(bank);
        synchronized (tillMonitor) {
            if (underLock) confirmBalance(bank);
            sold++;
        }
    }

    static void recomputePrices(boolean underLock) {
        if (!underLock) burn(40_000);
        priceLock.lock();
        if (underLock) burn(40_000);
        priceLock.unlock();
    }

    static void countSale() {
        burn(150);
        if (usesMonitor()) {
            synchronized (tillMonitor) {
                sold++;
            }
        } else {
            priceLock.lock();
            sold++;
            priceLock.unlock();
        }
    }

    static void serveRequest(Socket connection) {
        try (connection) {
            byte[] request = connection.getInputStream().readNBytes(16);
            if (request.length < 16) return;
            countSale();
            connection.getOutputStream().write(request);
        } catch (IOException ended) {
            // The client has gone.
        }
    }

    static void runSettlements(Socket bank) {
        boolean underLock = !settings.get("fault").endsWith("outside");
        try {
            for (;;) {
                Thread.sleep(560);
                if (usesMonitor()) settleTill(bank, underLock);
                else recomputePrices(underLock);
            }
        } catch (IOException | InterruptedException ended) {
            System.exit(4);
        }
    }

    static Thread daemon(String name, Runnable body) {
        Thread thread = new Thread(body, name);
        thread.setDaemon(true);
        return thread;
    }

    // The program `load` lies in the working directory.
    static void runLoad(String... words) throws IOException {
        String[] command = new String[words.length + 1];
        command[0] = "./load";
        System.arraycopy(words, 0, command, 1, words.length);
        new ProcessBuilder(command).inheritIO().start();
    }

    static void exitAtEnd() {
        try {
            Thread.sleep(1000 * Long.parseLong(settings.get("secs")));
        } catch (InterruptedException ended) {
            // It ends either way.
        }
        System.exit(0);
    }

    public static void main(String[] args) throws Exception {
        for (int i = 0; i + 1 < args.length; i += 2) settings.put(args[i].substring(2), args[i + 1]);
        int port = Integer.parseInt(settings.get("port"));
        ServerSocket listener = new ServerSocket(port, 256);
        runLoad("peer", String.valueOf(port + 1));
        Thread.sleep(150);
        Socket bank = new Socket("127.0.0.1", port + 1);
        bank.setTcpNoDelay(true);
        ExecutorService pool = Executors.newFixedThreadPool(8, body -> daemon("request-worker", body));
        daemon("settler", () -> runSettlements(bank)).start();
        daemon("timer", App::exitAtEnd).start();
        runLoad("connect", settings.get("port"), settings.get("connections"), settings.get("rate"),
                settings.get("burst"), settings.get("secs"), settings.get("truth"));
        for (;;) {
            Socket connection = listener.accept();
            connection.setTcpNoDelay(true);
            pool.submit(() -> serveRequest(connection));
        }
    }
}
