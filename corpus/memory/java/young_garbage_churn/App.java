import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;

/** A search service. Each request makes garbage that dies at once, so the heap fills, is collected, and fills again. */
public class App {
    static final Random RANDOM = new Random(6);

    record Match(String title, double score) {
    }

    static String handleSearch(List<String> titles) {
        List<Match> matches = new ArrayList<>();
        for (int i = 0; i < 60; i++) {
            matches.add(new Match(titles.get(RANDOM.nextInt(titles.size())), RANDOM.nextDouble()));
        }
        matches.sort((left, right) -> Double.compare(right.score, left.score));
        return matches.stream().map(match -> match.title + " " + match.score).collect(Collectors.joining(", "));
    }

    static List<String> loadTitles(int count) {
        List<String> titles = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            titles.add("title " + i + " by the author " + i % 4001);
        }
        return titles;
    }

    public static void main(String[] arguments) throws InterruptedException {
        List<String> titles = loadTitles(200_000);
        for (int i = 0; i < 40_000; i++) {
            handleSearch(titles);
        }
        System.out.println("ready");
        long end = System.nanoTime() + 120_000_000_000L;
        while (System.nanoTime() < end) {
            handleSearch(titles);
            Thread.sleep(1);
        }
    }
}
