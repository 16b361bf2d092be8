// Checks histories of the recorder with Porcupine, key by key.
//
//	checker [-html FOLDER] HISTORY...
//
// 0: all are linearizable; 1: one is not; 2: one cannot be read; 3: one could not be decided in time.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

type verdict struct {
	key     string // or a group's
	history []*operation
	result  porcupine.CheckResult
	why     string       // what is obvious about it
	obvious []*operation // and the answers that show it
}

// parts are what is checked by itself: the groups, and the keys that are in none.
func (h *history) parts() (all []verdict) {
	for name, operations := range h.groups {
		all = append(all, verdict{key: name + "*", history: operations})
	}
	for key, operations := range h.keys {
		if h.groups[groupOf(key)] == nil {
			all = append(all, verdict{key: key, history: operations})
		}
	}
	return all
}

// checkAll returns the keys whose histories are not linearizable, or undecided.
func checkAll(h *history, r rules) (bad []verdict) {
	parts := make(chan verdict)
	var mutex sync.Mutex
	var workers sync.WaitGroup
	for i := 0; i < runtime.GOMAXPROCS(0); i++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for v := range parts {
				if v.why, v.obvious = obvious(v.history); v.obvious != nil {
					v.result = porcupine.Illegal
				} else {
					v.result = r.check(v.history)
				}
				if v.result != porcupine.Ok {
					mutex.Lock()
					bad = append(bad, v)
					mutex.Unlock()
				}
			}
		}()
	}
	for _, v := range h.parts() {
		parts <- v
	}
	close(parts)
	workers.Wait()
	return bad
}

func writePicture(r rules, part []*operation, path string) error {
	drawn := make([]*operation, len(part))
	last := int64(0)
	for _, o := range part {
		if o.returned != never && o.returned > last {
			last = o.returned
		}
	}
	for i, o := range part {
		own := *o
		if own.returned == never {
			own.returned = last + 1000
		}
		drawn[i] = &own
	}
	_, info := r.checkVerbose(drawn, true)
	return porcupine.VisualizePath(r.modelOf(drawn), info, path)
}

// report prints the violation that was complete first.
func report(h *history, r rules, bad []verdict, html string) {
	type violation struct {
		verdict
		part  []*operation
		under rules
		end   int64
	}
	var first *violation
	for _, b := range bad {
		if b.result != porcupine.Illegal {
			continue
		}
		v := &violation{verdict: b, under: r}
		if b.obvious != nil {
			v.part, v.end = b.obvious, 0
			for _, o := range b.obvious {
				if o.returned > v.end {
					v.end = o.returned
				}
			}
		} else {
			v.part, v.under, v.end = r.shorten(b.history)
		}
		if first == nil || v.end < first.end {
			first = v
		}
	}
	fmt.Printf("VIOLATION %s: key %s, at operation %d of %d, seed %d (%d keys of %d in all)\n", h.Name, first.key,
		h.before(first.end), h.operations, h.Seed, len(bad), len(h.keys))
	why := fmt.Sprintf("no order of these explains their answers, from %s on:", first.under.initial.describe())
	if first.why != "" {
		why = first.why
	}
	fmt.Printf("%s\n%s", why, table(first.part))
	path := filepath.Join(html, h.Name+".html")
	if err := writePicture(r, prefix(first.history, first.end), path); err != nil {
		fmt.Printf("no picture: %v\n", err)
		return
	}
	fmt.Printf("all of the key's operations until then: %s\n", path)
}

func checkFile(path, html string) int {
	began := time.Now()
	h, err := readHistory(path)
	if err != nil {
		fmt.Printf("checker: %v\n", err)
		return 2
	}
	r := rules{mayVanish: h.MayVanish, mayRefuse: h.MayRefuse, allAnswers: true}
	bad := checkAll(h, r)
	if len(bad) == 0 {
		fmt.Printf("ok %s: %d operations on %d keys, %d began beside another client's on the same key, %d found the item "+
			"expired, %.1f s\n", h.Name, h.operations, len(h.keys), h.overlapping(), h.expired(),
			time.Since(began).Seconds())
		return 0
	}
	sort.Slice(bad, func(i, j int) bool { return bad[i].key < bad[j].key })
	for _, b := range bad {
		if b.result == porcupine.Illegal {
			report(h, r, bad, html)
			return 1
		}
	}
	fmt.Printf("UNDECIDED %s: key %s (%d operations) and %d more, after %v each\n", h.Name, bad[0].key,
		len(bad[0].history), len(bad)-1, keyTimeout)
	return 3
}

func main() {
	html := flag.String("html", ".", "folder for the pictures of violations")
	flag.Parse()
	worst := 0
	for _, path := range flag.Args() {
		if code := checkFile(path, *html); worst == 0 || code != 0 && code < worst {
			worst = code
		}
	}
	if flag.NArg() == 0 {
		fmt.Println("checker: no histories")
		worst = 2
	}
	os.Exit(worst)
}
