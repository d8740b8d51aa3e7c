// Split makes a recording of Java's Flight Recorder: it calls seventy and thirty, which take 70 and
// 30 % of the CPU time, allocates, waits for a lock, and sleeps in native code.
//
//	java -XX:StartFlightRecording:filename=split.jfr,settings=split.jfc -cp . Split
import java.util.ArrayList;
import java.util.List;

public class Split {
    static final Object lock = new Object();
    static volatile long sum;
    static volatile Object kept;

    static long work(long n) {
        long s = 0;
        for (long i = 0; i < n; i++) {
            s += i * i % 7;
        }
        return s;
    }

    static void seventy() {
        sum += work(700_000);
    }

    static void thirty() {
        sum += work(300_000);
    }

    static void allocate() {
        List<byte[]> all = new ArrayList<>();
        for (int i = 0; i < 64; i++) {
            all.add(new byte[64 << 10]);
        }
        kept = all;
    }

    static void contend() {
        synchronized (lock) {
            try {
                Thread.sleep(30);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        Thread other = new Thread(() -> {
            for (int i = 0; i < 8; i++) {
                contend();
            }
        }, "other;thread");
        other.start();
        for (int i = 0; i < 8; i++) {
            contend();
        }
        other.join();
        long end = System.nanoTime() + 3_000_000_000L;
        while (System.nanoTime() < end) {
            seventy();
            thirty();
            allocate();
        }
    }
}
