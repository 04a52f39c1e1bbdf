import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** A rule engine. Each new version of a rule gets a class loader of its own, and a list keeps every old version. */
public class App {
    public interface Rule {
        int apply(String document);
    }

    public static class DiscountRule implements Rule {
        private static final Map<String, Integer> DISCOUNTS = new HashMap<>();

        static {
            for (int i = 0; i < 60; i++) {
                DISCOUNTS.put("customer " + i, i % 12);
            }
        }

        @Override
        public int apply(String document) {
            return DISCOUNTS.getOrDefault(document, 0);
        }
    }

    static class RuleClassLoader extends ClassLoader {
        private final byte[] code;

        RuleClassLoader(byte[] code) {
            super(App.class.getClassLoader());
            this.code = code;
        }

        Class<?> defineRule() {
            return defineClass(DiscountRule.class.getName(), code, 0, code.length);
        }
    }

    static class RuleEngine {
        private final List<Rule> loadedRules = new ArrayList<>();
        private final byte[] code;

        RuleEngine(byte[] code) {
            this.code = code;
        }

        Rule loadRule() throws ReflectiveOperationException {
            Class<?> type = new RuleClassLoader(code).defineRule();
            Rule rule = (Rule) type.getDeclaredConstructor().newInstance();
            loadedRules.add(rule);
            return rule;
        }
    }

    static byte[] readRuleCode() throws IOException {
        try (InputStream stream = App.class.getResourceAsStream("App$DiscountRule.class")) {
            return stream.readAllBytes();
        }
    }

    static void handleRuleUpdate(RuleEngine engine, List<String> documents, int number)
            throws ReflectiveOperationException {
        engine.loadRule().apply(documents.get(number % documents.size()));
    }

    static List<String> loadDocuments(int count) {
        List<String> documents = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            documents.add("document " + i + " of the customer " + i % 60);
        }
        return documents;
    }

    public static void main(String[] arguments) throws Exception {
        List<String> documents = loadDocuments(150_000);
        RuleEngine engine = new RuleEngine(readRuleCode());
        System.out.println("ready");
        long end = System.nanoTime() + 120_000_000_000L;
        for (int number = 0; System.nanoTime() < end; number++) {
            handleRuleUpdate(engine, documents, number);
            Thread.sleep(10);
        }
    }
}
