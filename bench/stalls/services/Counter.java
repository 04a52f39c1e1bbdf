// Java: a fixed pool of threads fed by a scheduler; monitors and java.util.concurrent locks. One fault by flag: monitor (a
// reply awaited in a synchronized block), reentrant (computing under a ReentrantLock). "fixed" is the same program mended.
import java.io.FileWriter;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

public class Counter {
    static final Object till = new Object();
    static final ReentrantLock scales = new ReentrantLock();
    static volatile long sold;

    static void work(long us) {
        for (long end = System.nanoTime() + us * 1000; System.nanoTime() < end;) sold++;
    }

    static void otterAsk(Socket peer) throws Exception {
        OutputStream to = peer.getOutputStream();
        InputStream from = peer.getInputStream();
        to.write(70);
        to.flush();
        if (from.read() < 0) System.exit(0);
    }

    static void weaselSettle(String kind, boolean fixed, Socket peer) throws Exception {
        if (kind.equals("monitor")) {
            if (fixed) otterAsk(peer);
            synchronized (till) {
                if (!fixed) otterAsk(peer);
                sold++;
            }
        } else {
            if (fixed) work(40_000);
            scales.lock();
            if (!fixed) work(40_000);
            scales.unlock();
        }
    }

    static void request(String kind) {
        work(150);
        if (kind.equals("monitor")) {
            synchronized (till) { sold++; }
        } else {
            scales.lock();
            sold++;
            scales.unlock();
        }
    }

    public static void main(String[] args) throws Exception {
        String kind = args[2];
        boolean fixed = args.length > 3 && args[3].equals("fixed");
        FileWriter truth = new FileWriter(args[0]);
        ServerSocket door = new ServerSocket(0);
        Thread far = new Thread(() -> {
            try (Socket one = door.accept()) {
                for (int ms; (ms = one.getInputStream().read()) >= 0;) {
                    Thread.sleep(ms);
                    one.getOutputStream().write(ms);
                }
            } catch (Exception e) { System.exit(0); }
        });
        far.setDaemon(true);
        far.start();
        Socket peer = new Socket("127.0.0.1", door.getLocalPort());
        ExecutorService pool = Executors.newFixedThreadPool(8, r -> { Thread t = new Thread(r, "main-loop"); t.setDaemon(true); return t; });
        Thread settler = new Thread(() -> {
            try {
                for (;;) { Thread.sleep(560); weaselSettle(kind, fixed, peer); }
            } catch (Exception e) { System.exit(0); }
        });
        settler.setDaemon(true);
        settler.start();
        long end = System.nanoTime() + (long) (Double.parseDouble(args[1]) * 1e9);
        for (int turn = 0; System.nanoTime() < end; turn++) {
            long came = System.nanoTime();
            int me = turn % 8;
            pool.submit(() -> {
                request(kind);
                long now = System.nanoTime();
                if (now - came > 3_000_000) {
                    synchronized (truth) {
                        try { truth.write("stall " + me + " " + came + " " + now + "\n"); truth.flush(); } catch (Exception e) { System.exit(4); }
                    }
                }
            });
            LockSupport.parkNanos(1_200_000);
        }
        System.exit(0);
    }
}
