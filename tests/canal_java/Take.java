import java.net.InetSocketAddress;
import java.util.concurrent.TimeUnit;

import com.alibaba.otter.canal.client.CanalConnector;
import com.alibaba.otter.canal.client.impl.SimpleCanalConnector;
import com.alibaba.otter.canal.protocol.CanalEntry.Entry;
import com.alibaba.otter.canal.protocol.CanalEntry.EntryType;
import com.alibaba.otter.canal.protocol.CanalEntry.RowChange;
import com.alibaba.otter.canal.protocol.CanalEntry.RowData;
import com.alibaba.otter.canal.protocol.Message;
import com.alibaba.otter.canal.protocol.exception.CanalClientException;

/** Takes a destination's batches, prints the first column of every row, acks. Arguments: port, destination. */
public final class Take {

    public static void main(String[] arguments) throws Exception {
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0]));
        CanalConnector connector = connected(address, arguments[1]);
        while (true) {
            Message message = connector.getWithoutAck(100, 100L, TimeUnit.MILLISECONDS);
            if (message.getId() < 0) {
                continue;
            }
            for (Entry entry : message.getEntries()) {
                if (entry.getEntryType() == EntryType.ROWDATA) {
                    for (RowData row : RowChange.parseFrom(entry.getStoreValue()).getRowDatasList()) {
                        System.out.println(row.getAfterColumns(0).getValue());
                    }
                }
            }
            System.out.flush();
            connector.ack(message.getId());
        }
    }

    /** The server may be active, but not have started the destination yet. */
    private static CanalConnector connected(InetSocketAddress address, String destination) throws Exception {
        for (int tries = 0; ; tries++) {
            CanalConnector connector = new SimpleCanalConnector(address, "", "", destination);
            try {
                connector.connect();
                connector.subscribe();
                connector.rollback();
                return connector;
            } catch (CanalClientException error) {
                if (tries == 100) {
                    throw error;
                }
                Thread.sleep(200);
            }
        }
    }
}
