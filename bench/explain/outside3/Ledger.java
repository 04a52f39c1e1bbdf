import java.util.*;

/** Booking service: undo records hang on a linked chain of which the service only ever looks at the last thousand. */
public class Ledger {
    static final class Undo {
        final Undo before;
        final byte[] image;
        final String label;
        Undo(Undo before, int n, String label) {
            this.before = before;
            this.image = new byte[n];
            this.label = label;
        }
    }

    public static void main(String[] args) throws Exception {
        long end = System.nanoTime() + 150_000_000_000L;
        Random random = new Random(5);
        Undo last = null;
        long sum = 0;
        for (int id = 0; System.nanoTime() < end; id++) {
            for (int i = 0; i < 9; i++) {
                last = new Undo(last, 600 + random.nextInt(4000), "booking-" + id);
            }
            Undo u = last;
            for (int i = 0; i < 1000 && u != null; i++, u = u.before) sum += u.image.length;
            StringBuilder text = new StringBuilder();
            for (int i = 0; i < 400; i++) text.append(random.nextInt());
            sum += text.toString().hashCode();
            Thread.sleep(10);
        }
        System.out.println(sum);
    }
}
