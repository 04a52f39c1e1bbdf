import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** A report service. One request in twenty makes an executor of its own, and none is ever shut down. */
public class App {
    static final Random RANDOM = new Random(3);

    static class Report {
        final List<String> rows = new ArrayList<>();
    }

    static class ReportBuilder {
        private final List<String> towns;
        private final Report report = new Report();
        private final ExecutorService executor = Executors.newFixedThreadPool(2);

        ReportBuilder(List<String> towns) {
            this.towns = towns;
        }

        Report buildReport(int rows) throws InterruptedException, ExecutionException {
            Future<?> north = executor.submit(() -> addRows("north", rows));
            Future<?> south = executor.submit(() -> addRows("south", rows));
            north.get();
            south.get();
            return report;
        }

        private synchronized void addRows(String part, int rows) {
            for (int i = 0; i < rows; i++) {
                report.rows.add(part + ", " + towns.get(RANDOM.nextInt(towns.size())) + ": " + RANDOM.nextInt(9999));
            }
        }
    }

    static int handleRequest(int number, List<String> towns) throws InterruptedException, ExecutionException {
        if (number % 20 != 0) {
            return towns.get(RANDOM.nextInt(towns.size())).length();
        }
        return new ReportBuilder(towns).buildReport(120).rows.size();
    }

    static List<String> loadTowns(int count) {
        List<String> towns = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            towns.add("town " + i + " of the district " + i % 977);
        }
        return towns;
    }

    public static void main(String[] arguments) throws InterruptedException, ExecutionException {
        List<String> towns = loadTowns(150_000);
        System.out.println("ready");
        long end = System.nanoTime() + 120_000_000_000L;
        for (int number = 0; System.nanoTime() < end; number++) {
            handleRequest(number, towns);
            Thread.sleep(5);
        }
        System.exit(0);
    }
}
