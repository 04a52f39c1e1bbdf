import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;

/** A document store. Uploads are indexed behind the answer, by one thread that is too slow. */
public class App {
    static abstract class Job<T> {
        final T subject;
        final long created = System.currentTimeMillis();

        Job(T subject) {
            this.subject = subject;
        }

        abstract int perform() throws InterruptedException;
    }

    static class DocumentText {
        final String title;
        final String author;
        final String[] paragraphs;

        DocumentText(String title, String author, String[] paragraphs) {
            this.title = title;
            this.author = author;
            this.paragraphs = paragraphs;
        }
    }

    static class IndexStatistics {
        final Map<Integer, Integer> documentsByLength = new TreeMap<>();
        int documents;

        synchronized void count(int words) {
            documents++;
            documentsByLength.merge(words / 100, 1, Integer::sum);
        }
    }

    static class SearchIndexer {
        private final BlockingQueue<Job<DocumentText>> indexJobs = new LinkedBlockingQueue<>();
        private final IndexStatistics statistics = new IndexStatistics();
        private final Set<String> stopWords = new HashSet<>(Arrays.asList("the", "and", "of", "a", "in", "is"));

        class IndexJob extends Job<DocumentText> {
            final String tenant;

            IndexJob(DocumentText document, String tenant) {
                super(document);
                this.tenant = tenant;
            }

            @Override
            int perform() throws InterruptedException {
                int words = 0;
                for (String paragraph : subject.paragraphs) {
                    for (String word : paragraph.split(" ")) {
                        if (!stopWords.contains(word)) {
                            words++;
                        }
                    }
                }
                Thread.sleep(9); // the index writes to its disk
                return words;
            }
        }

        void startConsumer() {
            Thread consumer = new Thread(this::consume, "index-writer");
            consumer.setDaemon(true);
            consumer.start();
        }

        private void consume() {
            try {
                while (true) {
                    statistics.count(indexJobs.take().perform());
                }
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        }

        void submitDocument(DocumentText document, String tenant) {
            indexJobs.add(new IndexJob(document, tenant));
        }
    }

    static class TenantRegistry {
        private final Map<String, Map<String, String>> configurationByTenant = new HashMap<>();
        private final List<String> tenants = new ArrayList<>();

        void load(int count) {
            for (int i = 0; i < count; i++) {
                Map<String, String> configuration = new HashMap<>();
                for (int k = 0; k < 20; k++) {
                    configuration.put("configuration." + k, "value " + (i * 31 + k) + " of the tenant " + i);
                }
                String tenant = "tenant-" + i;
                tenants.add(tenant);
                configurationByTenant.put(tenant, configuration);
            }
        }
    }

    static class Thesaurus {
        final List<String> words = new ArrayList<>();
        final Map<String, List<String>> synonyms = new HashMap<>();

        void load(int count, Random random) {
            for (int i = 0; i < count; i++) {
                words.add("word" + Integer.toString(i * 37 + 1_000, 36));
            }
            for (String word : words) {
                synonyms.put(word, List.of(words.get(random.nextInt(count)), words.get(random.nextInt(count))));
            }
        }
    }

    static class UploadEndpoint {
        private final SearchIndexer indexer;
        private final TenantRegistry tenants;
        private final Thesaurus thesaurus;
        private final AtomicInteger uploads = new AtomicInteger();

        UploadEndpoint(SearchIndexer indexer, TenantRegistry tenants, Thesaurus thesaurus) {
            this.indexer = indexer;
            this.tenants = tenants;
            this.thesaurus = thesaurus;
        }

        DocumentText readDocument(Random random) {
            String[] paragraphs = new String[7];
            for (int p = 0; p < paragraphs.length; p++) {
                StringBuilder paragraph = new StringBuilder();
                for (int w = 0; w < 70; w++) {
                    paragraph.append(thesaurus.words.get(random.nextInt(thesaurus.words.size()))).append(' ');
                }
                paragraphs[p] = paragraph.toString();
            }
            return new DocumentText("document " + random.nextInt(), "author " + random.nextInt(5_000), paragraphs);
        }

        int handleUpload(Random random) {
            String tenant = tenants.tenants.get(random.nextInt(tenants.tenants.size()));
            DocumentText document = readDocument(random);
            indexer.submitDocument(document, tenant);
            return answer(document, tenant).length() + uploads.incrementAndGet();
        }

        private String answer(DocumentText document, String tenant) {
            StringBuilder answer = new StringBuilder("{\"title\": \"" + document.title + "\"");
            tenants.configurationByTenant.get(tenant).forEach((key, value) ->
                    answer.append(", \"").append(key).append("\": \"").append(value).append('"'));
            return answer.append('}').toString();
        }
    }

    static volatile int answered;

    public static void main(String[] arguments) throws InterruptedException {
        TenantRegistry tenants = new TenantRegistry();
        tenants.load(8_000);
        Thesaurus thesaurus = new Thesaurus();
        thesaurus.load(50_000, new Random(8));
        SearchIndexer indexer = new SearchIndexer();
        indexer.startConsumer();
        UploadEndpoint endpoint = new UploadEndpoint(indexer, tenants, thesaurus);
        System.out.println("ready");
        long end = System.nanoTime() + 120_000_000_000L;
        List<Thread> acceptors = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            Random random = new Random(60 + i);
            acceptors.add(new Thread("acceptor-" + i) {
                @Override
                public void run() {
                    try {
                        while (System.nanoTime() < end) {
                            answered = endpoint.handleUpload(random);
                            Thread.sleep(9);
                        }
                    } catch (InterruptedException stopped) {
                        interrupt();
                    }
                }
            });
        }
        acceptors.forEach(Thread::start);
        for (Thread acceptor : acceptors) {
            acceptor.join();
        }
    }
}
