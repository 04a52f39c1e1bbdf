// web tier: sessions that log out through the mobile API stay in the map
import java.util.*;

public class Sessions {
    static class Session {
        byte[] state;
        List<String> trail = new ArrayList<>();
    }
    public static void main(String[] a) throws Exception {
        Map<Integer, Session> all = new HashMap<>();
        ArrayDeque<Integer> order = new ArrayDeque<>();
        long t0 = System.nanoTime();
        int id = 0;
        while (System.nanoTime() - t0 < 150_000_000_000L) {
            for (int k = 0; k < 4; k++) {
                Session s = new Session();
                s.state = new byte[6000 + id * 37 % 9000];
                s.trail.add("login " + id);
                all.put(++id, s);
                order.add(id);
                if (order.size() > 1500) {
                    int old = order.poll();
                    if (old % 2 == 0)
                        all.remove(old);
                }
            }
            Thread.sleep(20);
        }
        System.out.println(all.size());
    }
}
