// Package clients tests gomemcache, Go's usual client, against the server that $SERVER names.
package clients

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

const deadline = 20 * time.Second

func client(t *testing.T) *memcache.Client {
	t.Helper()
	c := memcache.New(os.Getenv("SERVER"))
	c.Timeout = 10 * time.Second
	must(t, c.FlushAll())
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wants(t *testing.T, err, wanted error) {
	t.Helper()
	if !errors.Is(err, wanted) {
		t.Fatalf("got %v, want %v", err, wanted)
	}
}

func item(key, value string) *memcache.Item { return &memcache.Item{Key: key, Value: []byte(value)} }

func value(t *testing.T, c *memcache.Client, key, wanted string) {
	t.Helper()
	it, err := c.Get(key)
	must(t, err)
	if string(it.Value) != wanted {
		t.Fatalf("%s is %q, want %q", key, it.Value, wanted)
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in %v: %s", deadline, what)
		}
	}
}

func TestSetGetDelete(t *testing.T) {
	c := client(t)
	must(t, c.Ping())
	must(t, c.Set(&memcache.Item{Key: "key", Value: []byte("value"), Flags: 4242, Expiration: 100}))
	it, err := c.Get("key")
	must(t, err)
	if string(it.Value) != "value" || it.Flags != 4242 {
		t.Fatalf("got %q with flags %d", it.Value, it.Flags)
	}
	must(t, c.Delete("key"))
	wants(t, c.Delete("key"), memcache.ErrCacheMiss)
	_, err = c.Get("key")
	wants(t, err, memcache.ErrCacheMiss)
}

func TestAddReplaceAppendPrepend(t *testing.T) {
	c := client(t)
	wants(t, c.Replace(item("key", "1")), memcache.ErrNotStored)
	must(t, c.Add(item("key", "2")))
	wants(t, c.Add(item("key", "3")), memcache.ErrNotStored)
	must(t, c.Replace(item("key", "4")))
	must(t, c.Append(item("key", "5")))
	must(t, c.Prepend(item("key", "6")))
	value(t, c, "key", "645")
	wants(t, c.Append(item("absent", "x")), memcache.ErrNotStored)
}

func TestCompareAndSwap(t *testing.T) {
	c := client(t)
	must(t, c.Set(item("key", "1")))
	mine, err := c.Get("key")
	must(t, err)
	theirs, err := c.Get("key")
	must(t, err)
	mine.Value = []byte("2")
	must(t, c.CompareAndSwap(mine))
	theirs.Value = []byte("3")
	wants(t, c.CompareAndSwap(theirs), memcache.ErrCASConflict)
	value(t, c, "key", "2")
	must(t, c.Delete("key"))
	wants(t, c.CompareAndSwap(theirs), memcache.ErrCacheMiss)
}

func TestArithmetic(t *testing.T) {
	c := client(t)
	must(t, c.Set(item("n", "10")))
	for _, step := range []struct {
		call   func(string, uint64) (uint64, error)
		delta  uint64
		wanted uint64
	}{{c.Increment, 5, 15}, {c.Decrement, 3, 12}, {c.Decrement, 100, 0}, {c.Increment, 1 << 63, 1 << 63}} {
		n, err := step.call("n", step.delta)
		must(t, err)
		if n != step.wanted {
			t.Fatalf("got %d, want %d", n, step.wanted)
		}
	}
	_, err := c.Increment("absent", 1)
	wants(t, err, memcache.ErrCacheMiss)
	must(t, c.Set(item("word", "abc")))
	if _, err = c.Increment("word", 1); err == nil || !strings.Contains(err.Error(), "non-numeric") {
		t.Fatalf("incrementing a word: %v", err)
	}
}

func TestMany(t *testing.T) {
	c := client(t)
	keys := []string{"absent"}
	for n := 0; n < 1000; n++ {
		key := fmt.Sprint("many", n)
		keys = append(keys, key)
		must(t, c.Set(item(key, fmt.Sprint("value ", n))))
	}
	got, err := c.GetMulti(keys)
	must(t, err)
	if len(got) != 1000 {
		t.Fatalf("got %d of 1000", len(got))
	}
	for n := 0; n < 1000; n++ {
		if it := got[fmt.Sprint("many", n)]; it == nil || string(it.Value) != fmt.Sprint("value ", n) {
			t.Fatalf("many%d is %v", n, it)
		}
	}
}

func TestTouchAndExpiry(t *testing.T) {
	c := client(t)
	for _, key := range []string{"short", "touched", "fetched"} {
		must(t, c.Set(&memcache.Item{Key: key, Value: []byte("v"), Expiration: 1}))
	}
	must(t, c.Touch("touched", 100))
	it, err := c.GetAndTouch("fetched", 100)
	must(t, err)
	if string(it.Value) != "v" {
		t.Fatalf("got %q", it.Value)
	}
	wants(t, c.Touch("absent", 100), memcache.ErrCacheMiss)
	_, err = c.GetAndTouch("absent", 100)
	wants(t, err, memcache.ErrCacheMiss)
	eventually(t, "expired", func() bool {
		_, err := c.Get("short")
		return errors.Is(err, memcache.ErrCacheMiss)
	})
	value(t, c, "touched", "v")
	value(t, c, "fetched", "v")
}

func TestFlush(t *testing.T) {
	c := client(t)
	must(t, c.Set(item("key", "v")))
	must(t, c.DeleteAll())
	_, err := c.Get("key")
	wants(t, err, memcache.ErrCacheMiss)
}

func TestLargeValues(t *testing.T) {
	c := client(t)
	for _, size := range []int{0, 1, 1 << 14, 1_000_000} {
		large := bytes.Repeat([]byte("\r\nEND\r\n\x00"), size/8+1)[:size]
		must(t, c.Set(&memcache.Item{Key: "large", Value: large}))
		it, err := c.Get("large")
		must(t, err)
		if !bytes.Equal(it.Value, large) {
			t.Fatalf("%d bytes came back as %d", size, len(it.Value))
		}
	}
	if err := c.Set(&memcache.Item{Key: "large", Value: make([]byte, 2_000_000)}); err == nil {
		t.Fatal("2 MB were taken")
	}
	must(t, c.Set(item("after", "v")))
	value(t, c, "after", "v")
}

func TestBadKeys(t *testing.T) {
	c := client(t)
	for _, key := range []string{strings.Repeat("k", 251), "with blank", "with\nline", "with\x00zero"} {
		wants(t, c.Set(item(key, "v")), memcache.ErrMalformedKey)
	}
	longest := strings.Repeat("k", 250)
	must(t, c.Set(item(longest, "v")))
	value(t, c, longest, "v")
}

func TestSharedByGoroutines(t *testing.T) {
	c := client(t)
	c.MaxIdleConns = 8
	must(t, c.Set(item("shared", "0")))
	var wait sync.WaitGroup
	failures := make(chan error, 8)
	for g := 0; g < 8; g++ {
		wait.Add(1)
		go func(own string) {
			defer wait.Done()
			for n := 0; n < 200; n++ {
				if _, err := c.Increment("shared", 1); err != nil {
					failures <- err
					return
				}
				if err := c.Set(item(own, fmt.Sprint(n))); err != nil {
					failures <- err
					return
				}
				if it, err := c.Get(own); err != nil || string(it.Value) != fmt.Sprint(n) {
					failures <- fmt.Errorf("%s: %v %v", own, it, err)
					return
				}
			}
		}(fmt.Sprint("own", g))
	}
	wait.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
	value(t, c, "shared", "1600")
}

// start runs a server of the test's own.
func start(t *testing.T, port string) *exec.Cmd {
	t.Helper()
	words := append(strings.Fields(os.Getenv("SERVER_COMMAND")), "-p", port)
	command := exec.Command(words[0], words[1:]...)
	must(t, command.Start())
	eventually(t, "the server listens", func() bool {
		connection, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			connection.Close()
		}
		return err == nil
	})
	return command
}

func kill(command *exec.Cmd) {
	_ = command.Process.Kill()
	_ = command.Wait()
}

func TestComesBackAfterTheServer(t *testing.T) {
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_, port, err := net.SplitHostPort(probe.Addr().String())
	must(t, err)
	must(t, probe.Close())

	server := start(t, port)
	c := memcache.New("127.0.0.1:" + port)
	must(t, c.Set(item("key", "v")))
	kill(server)
	if err := c.Set(item("key", "v")); err == nil {
		t.Fatal("stored in a server that is gone")
	}
	server = start(t, port)
	defer kill(server)
	eventually(t, "the client works again", func() bool { return c.Set(item("key", "v")) == nil })
	value(t, c, "key", "v")
}
