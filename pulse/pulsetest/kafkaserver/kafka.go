package kafkaserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/pulsetest/internal/child"
)

const (
	kafkaArtifact = "kafka_2.13"
	kafkaVersion  = "4.4.0"

	otherWays = "set KAFKA_BROKERS to the addresses of a broker of yours"
)

// pom is the project whose dependencies are what a broker needs. Kafka brings no logger along; without one
// nobody could say why a broker did not come up.
const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pulse</groupId>
  <artifactId>broker</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>` + kafkaArtifact + `</artifactId><version>` + kafkaVersion + `</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
`

// findJava returns the java command that Maven would take, too.
func findJava() (string, error) {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		if path, err := exec.LookPath(filepath.Join(home, "bin", "java")); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("java")
	if err != nil {
		return "", fmt.Errorf("no Kafka broker can be started, because PATH lacks java: install Java 17 or newer (Debian: apt-get install default-jre-headless maven; macOS: brew install openjdk maven), or %s", otherWays)
	}
	return path, nil
}

// findKafka returns the directory with Kafka's jar files, fetching them if they are not there.
func findKafka(ctx context.Context, progress io.Writer) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache directory for a Kafka broker (%w): %s", err, otherWays)
	}
	base := filepath.Join(cache, "pulse", kafkaArtifact+"-"+kafkaVersion)
	if isDir(base) {
		return base, nil
	}
	if !child.CanLock {
		return "", fmt.Errorf("no Kafka broker can be fetched on this system: %s", otherWays)
	}
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		return "", fmt.Errorf("make the cache directory: %w", err)
	}
	unlock, err := child.AwaitLock(ctx, base+".lock", "fetching Kafka", progress)
	if err != nil {
		return "", err
	}
	defer unlock()
	if isDir(base) {
		return base, nil // fetched by the process that had the lock before
	}
	return base, fetch(ctx, base, progress)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// fetch has mvn copy the jar files into a work directory and moves that to its place in one step, so that
// nobody ever sees half a broker. The caller holds the lock.
func fetch(ctx context.Context, base string, progress io.Writer) error {
	if _, err := exec.LookPath("mvn"); err != nil {
		return fmt.Errorf("no Kafka broker is there yet, and to fetch one PATH lacks mvn: install Maven (Debian: apt-get install maven; macOS: brew install maven), or %s", otherWays)
	}
	work, logPath := base+".build", base+".log"
	if err := os.RemoveAll(work); err != nil {
		return fmt.Errorf("remove what an interrupted run has left: %w", err)
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return fmt.Errorf("make the cache directory: %w", err)
	}
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), []byte(pom), 0o644); err != nil {
		return fmt.Errorf("write the list of what a broker needs: %w", err)
	}
	_, _ = fmt.Fprintf(progress, "fetching Kafka %s with mvn, once for all later runs; this takes about ten seconds and 50 MB (log: %s)\n", kafkaVersion, logPath)
	begin := clock.Now()
	_ = os.Remove(logPath)
	libs := filepath.Join(work, "libs")
	cmd := exec.Command("mvn", "--batch-mode", "--quiet", "--file", filepath.Join(work, "pom.xml"),
		"dependency:copy-dependencies", "-DoutputDirectory="+libs)
	cmd.Dir = work // away from settings of the project that the user works in
	proc, err := child.StartLogged(cmd, syscall.SIGTERM, logPath)
	if err != nil {
		return fmt.Errorf("run mvn: %w", err)
	}
	stopped := context.AfterFunc(ctx, func() { child.KillGroup(proc.Handle) })
	err = proc.Wait()
	stopped()
	if ctx.Err() != nil {
		return errors.New("fetching Kafka was interrupted; the next run does it again")
	}
	if err != nil {
		return fmt.Errorf("fetching Kafka with mvn failed after %s (%w): %s; the whole output is in %s; to do without it, %s",
			clock.Since(begin).Round(time.Second), err, firstError(logPath), logPath, otherWays)
	}
	if err := os.Rename(libs, base); err != nil {
		return fmt.Errorf("mvn reported success, but Kafka cannot be put in place: %w; its output is in %s", err, logPath)
	}
	_ = os.RemoveAll(work)
	return nil
}

// firstError returns the line of mvn's output that tells most about why it failed.
func firstError(logPath string) string {
	data, err := os.ReadFile(logPath)
	if err != nil {
		return "no output"
	}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "[ERROR]") {
			return strings.TrimSpace(strings.TrimPrefix(line, "[ERROR]"))
		}
	}
	if last := child.Tail(logPath, 1); last != "" {
		return last
	}
	return "no output"
}
