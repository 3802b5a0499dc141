import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.FileReader;
import java.io.Reader;
import java.net.URI;
import java.util.Properties;
import javax.sql.DataSource;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.io.FileSystemResource;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.jdbc.datasource.init.ResourceDatabasePopulator;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.annotation.EnableTransactionManagement;
import org.springframework.web.context.support.AnnotationConfigWebApplicationContext;
import org.springframework.web.servlet.DispatcherServlet;
import org.springframework.web.servlet.config.annotation.EnableWebMvc;

/** Does what Spring Boot does for the page: the beans, the schema, and a Tomcat on server.port. */
public class Main {
    @Configuration
    @EnableWebMvc
    @EnableTransactionManagement(proxyTargetClass = true)
    public static class Boot {
        @Bean
        public DataSource dataSource() {
            URI url = URI.create(System.getenv("DATABASE_URL"));
            String[] user = url.getUserInfo().split(":", 2);
            String jdbc = "jdbc:postgresql://" + url.getHost() + ":" + url.getPort() + url.getPath();
            DataSource source = new DriverManagerDataSource(jdbc, user[0], user[1]);
            new ResourceDatabasePopulator(new FileSystemResource("src/main/resources/schema.sql")).execute(source);
            return source;
        }

        @Bean
        public JdbcTemplate jdbc(DataSource source) {
            return new JdbcTemplate(source);
        }

        @Bean
        public PlatformTransactionManager transactions(DataSource source) {
            return new DataSourceTransactionManager(source);
        }

        @Bean
        public ObjectMapper json() {
            return new ObjectMapper();
        }
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        try (Reader file = new FileReader("src/main/resources/application.properties")) {
            properties.load(file);
        }
        AnnotationConfigWebApplicationContext spring = new AnnotationConfigWebApplicationContext();
        spring.register(Boot.class, shop.Leasehold.class, shop.OrderController.class, shop.TaskController.class);
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir("target");
        tomcat.setPort(Integer.parseInt(properties.getProperty("server.port")));
        tomcat.getConnector();
        Context context = tomcat.addContext("", new File(".").getAbsolutePath());
        Tomcat.addServlet(context, "spring", new DispatcherServlet(spring)).setLoadOnStartup(1);
        context.addServletMappingDecoded("/", "spring");
        tomcat.start();
        System.out.println("Tomcat started on port " + tomcat.getConnector().getLocalPort());
        tomcat.getServer().await();
    }
}
