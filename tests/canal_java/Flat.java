import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONWriter;
import com.alibaba.otter.canal.connector.core.producer.MQMessageUtils;
import com.alibaba.otter.canal.protocol.CanalEntry;
import com.alibaba.otter.canal.protocol.FlatMessage;
import com.alibaba.otter.canal.protocol.Message;
import java.io.DataInputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Entries from standard input (length, bytes) as the flat messages of Canal's own classes, a line each: the number of
 *  the entry, the partition, the message. Arguments: partitionsNum, partitionHash, database.hash. */
public class Flat {
    public static void main(String[] args) throws Exception {
        ThreadPoolExecutor pool = new ThreadPoolExecutor(1, 1, 0, TimeUnit.SECONDS, new LinkedBlockingQueue<>());
        DataInputStream in = new DataInputStream(System.in);
        for (int number = 0; in.available() > 0; number++) {
            byte[] bytes = new byte[in.readInt()];
            in.readFully(bytes);
            List<CanalEntry.Entry> one = new ArrayList<>();
            one.add(CanalEntry.Entry.parseFrom(bytes));
            MQMessageUtils.EntryRowData[] data = MQMessageUtils.buildMessageData(new Message(7L, one), pool);
            for (FlatMessage flat : MQMessageUtils.messageConverter(data, 7L)) {
                FlatMessage[] parts = {flat};
                if (args.length > 0) {
                    parts = MQMessageUtils.messagePartition(flat, Integer.valueOf(args[0]), args[1], Boolean.parseBoolean(args[2]));
                }
                for (int partition = 0; partition < parts.length; partition++) {
                    if (parts[partition] != null) {
                        byte[] json = JSON.toJSONBytes(parts[partition], JSONWriter.Feature.WriteNulls);
                        System.out.println(number + " " + partition + " " + new String(json, StandardCharsets.UTF_8));
                    }
                }
            }
        }
        pool.shutdown();
    }
}
