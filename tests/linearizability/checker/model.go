package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

const (
	second = int64(1_000_000_000)
	// The store's clock moves in whole seconds, by a thread that looks every quarter of one. So late may it be.
	clockLag = second
	slots    = 16

	// of what an answer shows beside the value (history.hpp)
	notShown     = -2
	neverExpires = -1
)

// presence of a key.
type presence uint8

const (
	absent presence = iota
	present
	presentUnknown // with any value
	unknown        // present with any value, or absent
)

// state of one key.
type state struct {
	is    presence
	value string
	cas   uint64 // 0: no answer has shown it yet
	floor uint64 // it is larger
	// From `from` on it may have expired, and by `until` it has. 0: it does not.
	from, until int64
	flags       int64
	// What the item was stored or touched with is known.
	knowsTime, knowsFlags bool
	next                  [slots]uint8 // which operation of a group comes next
}

// rules of one history.
type rules struct {
	mayVanish bool // items may be evicted at any time
	mayRefuse bool // a full store says so
	// Every answer that shows a CAS id is in the history, so that no cas can name one that none has shown.
	allAnswers bool
	initial    state
}

func (r rules) canBeAbsent(s *state, o *operation) bool {
	return s.is == absent || s.is == unknown || r.mayVanish || mayHaveExpired(s, o)
}

func mayHaveExpired(s *state, o *operation) bool { return s.from != 0 && o.returned >= s.from }

func canBePresent(s *state, o *operation) bool {
	return s.is != absent && (s.until == 0 || o.called <= s.until)
}

func (s *state) vanish() {
	*s = state{next: s.next}
}

// expires sets the times of an item that was stored or touched.
func (s *state) expires(o *operation) {
	s.from, s.until, s.knowsTime = 0, 0, true
	if o.ttl == 0 {
		return
	}
	s.from = (o.called-clockLag)/second*second + o.ttl*second
	if s.from <= 0 {
		s.from = 1
	}
	if o.returned != never {
		s.until = o.returned/second*second + o.ttl*second + clockLag
	}
}

// stores makes the operation's value the key's, with its time and flags.
func (r rules) stores(s *state, o *operation) bool {
	if !r.write(s, o, o.value) {
		return false
	}
	s.expires(o)
	s.flags, s.knowsFlags = o.flags, true
	return true
}

// mayHaveLeft says whether an answer may show that many seconds to live: the item's are known but for the clocks.
func (s *state) mayHaveLeft(o *operation) bool {
	if s.from == 0 || o.left < 0 {
		return s.from == 0 && o.left == neverExpires
	}
	left := o.left * second
	return left >= s.from-o.returned-2*clockLag && (s.until == 0 || left <= s.until-o.called+2*clockLag)
}

// write makes `value` the key's, under a CAS id that is new.
func (r rules) write(s *state, o *operation, value string) bool {
	floor := s.floor
	if s.cas > floor {
		floor = s.cas
	}
	// Ids grow along the life of an item; those of items that come after it has gone may be smaller.
	if s.is == absent || r.mayVanish || mayHaveExpired(s, o) {
		floor = 0
	}
	if o.cas != 0 && o.cas <= floor {
		return false
	}
	s.is, s.value, s.cas, s.floor = present, value, o.cas, floor
	return true
}

func isNumber(value string) bool { return value != "" && value[0] >= '0' && value[0] <= '9' }

func count(value string, o *operation) string {
	n, _ := strconv.ParseUint(value, 10, 64)
	if o.kind == "incr" {
		return strconv.FormatUint(n+o.delta, 10)
	}
	if n < o.delta {
		return "0"
	}
	return strconv.FormatUint(n-o.delta, 10)
}

func joined(value string, o *operation) string {
	if o.kind == "append" {
		return value + "," + o.value
	}
	return o.value + "," + value
}

// step says whether the operation can be answered as it was in state s, and changes s to what it leaves.
func (r rules) step(s *state, o *operation) bool {
	if o.size > 1 {
		if int(s.next[o.slot]) != o.index {
			return false
		}
		s.next[o.slot] = uint8((o.index + 1) % o.size)
	}
	switch o.outcome {
	case "unknown":
		r.attempt(s, o)
		return true
	case "flushed":
		s.vanish()
		return true
	case "miss":
		return r.leaveAbsent(s, o)
	case "no_memory", "no_memory_gone":
		if o.kind == "set" || o.outcome == "no_memory_gone" {
			s.vanish()
		}
		return r.mayVanish || r.mayRefuse
	case "not_stored":
		switch o.kind {
		case "add":
			return seePresent(s, o)
		case "replace", "append", "prepend":
			return r.leaveAbsent(s, o)
		}
		return false
	case "stored":
		return r.store(s, o)
	}
	if !seePresent(s, o) {
		return false
	}
	switch o.outcome {
	case "hit":
		if o.kind == "exchange" {
			return handOver(s, o) && r.stores(s, o)
		}
		return read(s, o)
	case "removed":
		if o.kind == "take" && !handOver(s, o) {
			return false
		}
		s.vanish()
		return true
	case "touched":
		s.expires(o)
		return true
	case "exists":
		return s.is == presentUnknown || s.cas != o.expected
	case "not_a_number":
		return s.is == presentUnknown || !isNumber(s.value)
	case "number":
		if s.is == present && (!isNumber(s.value) || count(s.value, o) != o.read) {
			return false
		}
		return r.write(s, o, o.read)
	}
	return false
}

func (r rules) leaveAbsent(s *state, o *operation) bool {
	if !r.canBeAbsent(s, o) {
		return false
	}
	s.vanish()
	return true
}

func seePresent(s *state, o *operation) bool {
	if !canBePresent(s, o) {
		return false
	}
	if s.is == unknown {
		s.is = presentUnknown
	}
	return true
}

func read(s *state, o *operation) bool {
	if s.is == present && s.value != o.read {
		return false
	}
	s.is, s.value = present, o.read
	if o.left != notShown && s.knowsTime && !s.mayHaveLeft(o) {
		return false
	}
	if o.readFlags != notShown {
		if s.knowsFlags && s.flags != o.readFlags {
			return false
		}
		s.flags, s.knowsFlags = o.readFlags, true
	}
	if o.cas == 0 {
		return true
	}
	if s.cas != 0 && s.cas != o.cas || o.cas <= s.floor {
		return false
	}
	s.cas = o.cas
	return true
}

// handOver checks the old item that a write returns; `expected` is its CAS id.
func handOver(s *state, o *operation) bool {
	old := *o
	old.cas = o.expected
	return read(s, &old)
}

func (r rules) store(s *state, o *operation) bool {
	switch o.kind {
	case "add", "exchange":
		if !r.canBeAbsent(s, o) {
			return false
		}
		s.vanish()
	case "replace", "append", "prepend":
		if !seePresent(s, o) {
			return false
		}
	case "cas":
		if !seePresent(s, o) || s.is == present && s.cas != o.expected && (s.cas != 0 || r.allAnswers) {
			return false
		}
	}
	if o.kind == "append" || o.kind == "prepend" {
		if s.is == presentUnknown {
			s.cas, s.floor = o.cas, 0
			return true
		}
		if isNumber(s.value) {
			return false
		}
		return r.write(s, o, joined(s.value, o))
	}
	return r.stores(s, o)
}

// attempt does what an operation without an answer does if it takes effect here. That it never does, or finds the item
// gone, is the same as taking effect after everything else.
func (r rules) attempt(s *state, o *operation) {
	there := s.is == present
	switch o.kind {
	case "set", "exchange", "add", "replace", "cas", "append", "prepend":
		if r.mayRefuse {
			*s = state{is: unknown, next: s.next} // done; refused; or refused as a meta set is, which removes the item
			return
		}
	}
	switch o.kind {
	case "set", "exchange":
		r.stores(s, o)
	case "add":
		if r.canBeAbsent(s, o) {
			s.vanish()
			r.stores(s, o)
		}
	case "replace":
		if there {
			r.stores(s, o)
		}
	case "cas":
		if there && s.cas == o.expected {
			r.stores(s, o)
		}
	case "delete", "take", "flush":
		s.vanish()
	case "touch":
		if there {
			s.expires(o)
		}
	case "incr", "decr":
		if there && isNumber(s.value) {
			r.write(s, o, count(s.value, o))
		}
	case "append", "prepend":
		if there && !isNumber(s.value) {
			r.write(s, o, joined(s.value, o))
		}
	}
}

func (r rules) model() porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return r.initial },
		Step: func(before, input, _ interface{}) (bool, interface{}) {
			s := before.(state)
			ok := r.step(&s, input.(*operation))
			return ok, s
		},
		DescribeOperation: func(input, _ interface{}) string { return input.(*operation).describe() },
		DescribeState:     func(s interface{}) string { return s.(state).describe() },
	}
}

func (o *operation) describe() string {
	words := []string{o.kind}
	if o.grouped && o.scan == nil && o.kind != "flush" {
		words = append(words, o.key)
	}
	if o.value != "" {
		words = append(words, o.value)
	}
	if o.delta != 0 {
		words = append(words, strconv.FormatUint(o.delta, 10))
	}
	if o.expected != 0 {
		words = append(words, fmt.Sprintf("if cas is %d", o.expected))
	}
	if o.ttl != 0 {
		words = append(words, fmt.Sprintf("for %d s", o.ttl))
	}
	if o.flags != 0 {
		words = append(words, fmt.Sprintf("flags %d", o.flags))
	}
	words = append(words, "->", strings.ReplaceAll(o.outcome, "_", " "))
	if o.read != "" {
		words = append(words, o.read)
	}
	if o.cas != 0 {
		words = append(words, fmt.Sprintf("(cas %d)", o.cas))
	}
	if o.readFlags > 0 {
		words = append(words, fmt.Sprintf("flags %d", o.readFlags))
	}
	if o.left != notShown {
		words = append(words, fmt.Sprintf("%d s left", o.left))
	}
	return strings.Join(words, " ")
}

func (s state) describe() string {
	switch s.is {
	case absent:
		return "absent"
	case unknown:
		return "anything"
	case presentUnknown:
		return "some value"
	}
	if s.cas != 0 {
		return fmt.Sprintf("%s (cas %d)", s.value, s.cas)
	}
	return s.value
}
