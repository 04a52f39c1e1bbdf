import java.util.concurrent.locks.ReentrantLock;

/** Threads that wait in known functions, for long and again and again, until standard input ends. */
public class Waits {
    static final ReentrantLock LOCK = new ReentrantLock();
    static final Object MONITOR = new Object();
    static long taken;

    static void pause(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    static void holdsLock() {
        LOCK.lock();
        try {
            pause(20);
        } finally {
            LOCK.unlock();
        }
    }

    static void takesLock() {
        LOCK.lock();
        try {
            taken++;
        } finally {
            LOCK.unlock();
        }
    }

    static void inMonitor() {
        synchronized (MONITOR) {
            pause(20);
        }
    }

    static int deeply(int depth) {
        if (depth > 0) {
            return deeply(depth - 1) + 1;
        }
        pause(20);
        return 0;
    }

    static void repeat(String name, Runnable work) {
        Thread thread = new Thread(() -> {
            while (true) {
                work.run();
            }
        }, name);
        thread.setDaemon(true);
        thread.start();
    }

    public static void main(String[] args) throws Exception {
        repeat("holds", Waits::holdsLock);
        repeat("takes", Waits::takesLock);
        repeat("monitor0", Waits::inMonitor);
        repeat("monitor1", Waits::inMonitor);
        repeat("deep", () -> deeply(30));
        // Warm: the compilers have had their time.
        pause(1500);
        System.out.println("ready");
        System.in.read();
    }
}
