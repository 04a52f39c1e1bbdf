import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * A map that grows and thread pools that nobody shuts down, by command:
 * `sessions N`, `pools N`, `garbage N` (objects of 1 KiB that nothing holds); `collect N` collects N times; `end` ends it.
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

    static byte[] garbage;

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
                } else if (words[0].equals("garbage")) {
                    garbage = new byte[1008];
                } else {
                    ExecutorService pool = Executors.newFixedThreadPool(1);
                    pool.submit(() -> 1).get();
                }
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
