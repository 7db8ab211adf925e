import java.net.InetSocketAddress;
import java.util.concurrent.TimeUnit;

import com.alibaba.otter.canal.client.CanalConnector;
import com.alibaba.otter.canal.client.impl.SimpleCanalConnector;
import com.alibaba.otter.canal.protocol.CanalEntry.Entry;
import com.alibaba.otter.canal.protocol.CanalEntry.EntryType;
import com.alibaba.otter.canal.protocol.CanalEntry.RowChange;
import com.alibaba.otter.canal.protocol.Message;

/**
 * Drains a Canal destination: takes batches, parses every row change, acks.
 *
 * Arguments: port, destination, rows that only warm up, rows in all. Prints a line when the first are behind, and one
 * of JSON when all are; then waits for its input to end, so that what it took can be looked up.
 */
public final class Drain {

    private static final int BATCH = 4096; // in units of 1 KB, as Canal counts
    private static final long WAIT_MILLIS = 10;

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        long warm = Long.parseLong(arguments[2]);
        long all = Long.parseLong(arguments[3]);
        CanalConnector connector =
            new SimpleCanalConnector(new InetSocketAddress("127.0.0.1", port), "", "", arguments[1]);
        connector.connect();
        connector.subscribe();
        long behind = take(connector, 0, warm);
        System.out.println("begin");
        long began = System.nanoTime();
        long seen = take(connector, behind, all);
        double seconds = (System.nanoTime() - began) / 1e9;
        System.out.println("{\"rows\": " + (seen - behind) + ", \"seconds\": " + seconds + "}");
        while (System.in.read() >= 0) {
            continue;
        }
        connector.disconnect();
    }

    /** Takes batches until so many rows were seen in all; how many were. */
    private static long take(CanalConnector connector, long seen, long until) throws Exception {
        while (seen < until) {
            Message message = connector.getWithoutAck(BATCH, WAIT_MILLIS, TimeUnit.MILLISECONDS);
            if (message.getId() >= 0) {
                seen += rows(message);
                connector.ack(message.getId());
            }
        }
        return seen;
    }

    private static long rows(Message message) throws Exception {
        long rows = 0;
        for (Entry entry : message.getEntries()) {
            if (entry.getEntryType() == EntryType.ROWDATA) {
                rows += RowChange.parseFrom(entry.getStoreValue()).getRowDatasCount();
            }
        }
        return rows;
    }
}
