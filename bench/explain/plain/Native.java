import java.util.HashMap;
import java.util.Map;

/** Java as services use it. First argument: which. */
public class Native {
    static native int hash(String text);

    static final Map<String, byte[]> SESSIONS = new HashMap<>();

    public static void main(String[] words) throws Exception {
        if (words[0].equals("hash")) System.load(words[1]);
        for (int n = 0;; n++) {
            if (words[0].equals("hash")) hash("text ".repeat(200) + n);
            if (words[0].equals("sessions")) SESSIONS.put("session-" + n, new byte[900]);
            byte[] churn = new byte[5000];
            churn[n % 5000] = 1;
            if (n % 20 == 0) Thread.sleep(30);
        }
    }
}
