import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.Deflater;

/** Names say nothing of what is done. First argument: which. */
public class Wood {
    static final List<Object> KEPT = new ArrayList<>();

    /** teak: entries of a map that nobody removes. */
    static void teak(Map<Integer, byte[]> map, int n) { map.put(n, new byte[600]); }

    /** ebony: buffers outside of the heap, kept. */
    static void ebony(int n) { if (n % 10 == 0) { ByteBuffer b = ByteBuffer.allocateDirect(50_000); for (int i = 0; i < 50_000; i += 100) b.put(i, (byte) 1); KEPT.add(b); } }

    /** balsa: compressors that nobody ends, but keeps. */
    static void balsa(int n) { if (n % 40 == 0) { Deflater d = new Deflater(); d.setInput(new byte[100]); d.finish(); d.deflate(new byte[200]); KEPT.add(d); } }

    /** larch: nothing is kept. */
    static void larch(int n) { byte[] b = new byte[20_000]; b[n % 100] = 1; }

    public static void main(String[] words) throws Exception {
        Map<Integer, byte[]> map = new HashMap<>();
        for (int n = 0;; n++) {
            switch (words[0]) {
                case "teak": teak(map, n); break;
                case "ebony": ebony(n); break;
                case "balsa": balsa(n); break;
                default: larch(n);
            }
            if (n % 20 == 0) Thread.sleep(25);
        }
    }
}
