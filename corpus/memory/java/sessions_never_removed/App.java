import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;

/** A shop's login service. A login adds a session to a map; a logout forgets to take it out. */
public class App {
    static final Random RANDOM = new Random(1);

    static class Basket {
        final List<String> lines = new ArrayList<>();
    }

    static class Session {
        final String token;
        final Basket basket = new Basket();
        final Map<String, String> preferences = new HashMap<>();
        boolean open = true;

        Session(String token) {
            this.token = token;
            for (int i = 0; i < 8; i++) {
                preferences.put("preference " + i, "value " + RANDOM.nextInt(1_000_000));
                basket.lines.add("article " + RANDOM.nextInt(1_000_000) + ", added by the search page");
            }
        }
    }

    static class SessionRegistry {
        private final Map<String, Session> sessionsByToken = new ConcurrentHashMap<>();

        Session openSession() {
            String token = Long.toHexString(RANDOM.nextLong()) + Long.toHexString(RANDOM.nextLong());
            Session session = new Session(token);
            sessionsByToken.put(token, session);
            return session;
        }

        void closeSession(Session session) {
            session.open = false;
        }
    }

    static void handleVisit(SessionRegistry registry, List<String> articles) {
        Session session = registry.openSession();
        session.basket.lines.add(articles.get(RANDOM.nextInt(articles.size())));
        registry.closeSession(session);
    }

    static List<String> loadArticles(int count) {
        List<String> articles = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            articles.add("article " + i + " of the supplier " + i % 900 + ", shelf " + i % 77);
        }
        return articles;
    }

    public static void main(String[] arguments) throws InterruptedException {
        List<String> articles = loadArticles(200_000);
        SessionRegistry registry = new SessionRegistry();
        System.out.println("ready");
        long end = System.nanoTime() + 120_000_000_000L;
        while (System.nanoTime() < end) {
            handleVisit(registry, articles);
            Thread.sleep(2);
        }
    }
}
