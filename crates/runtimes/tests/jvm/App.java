import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * A map that grows and thread pools that nobody shuts down, by command:
 * `sessions N`, `pools N`, `garbage N` (objects of 1 KiB that nothing holds); `collect N` collects N times;
 * `queue N` keeps N jobs in a queue that is emptied and filled all the time; `end` ends it.
 */
public class App {
    static final class Session {
        final long id;
        final byte[] body = new byte[100];

        Session(long id) {
            this.id = id;
        }
    }

    static final Map<Long, Session> SESSIONS = new HashMap<>();

    static final class Job {
        final long id;

        Job(long id) {
            this.id = id;
        }
    }

    static final LinkedBlockingQueue<Job> JOBS = new LinkedBlockingQueue<>();

    static byte[] garbage;

    static void serve() {
        try {
            for (long id = 0; ; id++) {
                JOBS.take();
                JOBS.put(new Job(id));
                if (id % 16 == 0) {
                    Thread.sleep(1);
                }
            }
        } catch (InterruptedException stop) {
            throw new IllegalStateException(stop);
        }
    }

    /** A thread of a pool is counted where it waits for work, so `done` is said only then. */
    static void untilItWaits(Thread worker) throws InterruptedException {
        while (worker.getState() != Thread.State.WAITING) {
            Thread.sleep(1);
        }
    }

    static void await() throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null && !line.equals("end"); line = commands.readLine()) {
            String[] words = line.split(" ");
            int count = Integer.parseInt(words[1]);
            for (int i = 0; i < count; i++) {
                if (words[0].equals("sessions")) {
                    long id = SESSIONS.size();
                    SESSIONS.put(id, new Session(id));
                } else if (words[0].equals("collect")) {
                    System.gc();
                } else if (words[0].equals("queue")) {
                    JOBS.add(new Job(i));
                } else if (words[0].equals("garbage")) {
                    garbage = new byte[1008];
                } else {
                    ExecutorService pool = Executors.newFixedThreadPool(1);
                    untilItWaits(pool.submit(Thread::currentThread).get());
                }
            }
            if (words[0].equals("queue")) {
                Thread server = new Thread(App::serve);
                server.setDaemon(true);
                server.start();
            }
            System.out.println("done");
        }
    }

    public static void main(String[] arguments) throws Exception {
        System.out.println("ready");
        await();
        System.out.println("sessions " + SESSIONS.size());
        System.exit(3);
    }
}
