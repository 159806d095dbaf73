import java.io.File;
import java.io.FileOutputStream;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** A small YARN in one process, for tests: a resource manager and a node manager, until it is killed. */
public class MiniYarn {
  public static void main(String[] arguments) throws Exception {
    YarnConfiguration configuration = new YarnConfiguration();
    configuration.set("yarn.scheduler.capacity.root.queues", "default");
    configuration.set("yarn.scheduler.capacity.root.default.capacity", "100");
    configuration.set("yarn.scheduler.capacity.maximum-am-resource-percent", "1.0");
    configuration.set("yarn.scheduler.minimum-allocation-mb", "128");
    configuration.set("yarn.nodemanager.resource.memory-mb", "3072");
    configuration.set("yarn.nodemanager.vmem-check-enabled", "false");
    configuration.set("yarn.nodemanager.disk-health-checker.enable", "false");
    MiniYARNCluster cluster = new MiniYARNCluster("flott", 1, 1, 1);
    cluster.init(configuration);
    cluster.start();
    try (FileOutputStream file = new FileOutputStream(new File(arguments[0], "yarn-site.xml"))) {
      cluster.getConfig().writeXml(file);
    }
    System.out.println("ready");
    Thread.currentThread().join();
  }
}
