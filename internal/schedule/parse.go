package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"unicode"
)

// maxCron bounds the length of an expression, in bytes.
const maxCron = 512

// field is one of the five fields of an expression: what it allows, and how it is called.
type field struct {
	name     string
	min, max int
	steps    int    // largest n of */n: how many values there are; day 7 of the week is day 0
	names    string // three letters each, the first for min
}

func cronFields() [5]field {
	return [5]field{
		{name: "minute", min: 0, max: 59, steps: 60},
		{name: "hour", min: 0, max: 23, steps: 24},
		{name: "day of month", min: 1, max: 31, steps: 31},
		{name: "month", min: 1, max: 12, steps: 12, names: "janfebmaraprmayjunjulaugsepoctnovdec"},
		{name: "day of week", min: 0, max: 7, steps: 7, names: "sunmontuewedthufrisat"},
	}
}

// macro returns the expression that a macro stands for; "": there is none of that name.
func macro(name string) string {
	switch name {
	case "@yearly", "@annually":
		return "0 0 1 1 *"
	case "@monthly":
		return "0 0 1 * *"
	case "@weekly":
		return "0 0 * * 0"
	case "@daily", "@midnight":
		return "0 0 * * *"
	case "@hourly":
		return "0 * * * *"
	}
	return ""
}

const cronHelp = `write five fields, as in "0 3 * * mon-fri": minute (0-59), hour (0-23), day of month (1-31), month (1-12, jan-dec) ` +
	`and day of week (0-7, sun-sat; 0 and 7 are Sunday); each is a list of *, */n, a, a-b and a-b/n; or @yearly, @annually, @monthly, ` +
	`@weekly, @daily, @midnight or @hourly`

// parseCron compiles an expression. It refuses one that never fires.
func parseCron(text string) (*cron, error) {
	if len(text) > maxCron {
		return nil, fmt.Errorf("the expression is %d bytes long: %d at most", len(text), maxCron)
	}
	expr := strings.Trim(text, " \t")
	if strings.HasPrefix(expr, "@") {
		if expr = macro(lower(expr)); expr == "" {
			return nil, fmt.Errorf("%q is not known: %s", text, cronHelp)
		}
	}
	words := strings.FieldsFunc(expr, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(words) != 5 {
		return nil, fmt.Errorf("%q has %d fields: %s", text, len(words), cronHelp)
	}
	var sets [5]uint64
	for i, f := range cronFields() {
		set, err := f.parse(lower(words[i]))
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w: %s", f.name, words[i], err, cronHelp)
		}
		sets[i] = set
	}
	sets[4] = (sets[4] | sets[4]>>7) & 0x7f // day 7 is day 0
	star := func(i int) bool { return strings.HasPrefix(words[i], "*") }
	c := &cron{
		minute: sets[0], hour: sets[1], dom: sets[2], month: sets[3], dow: sets[4],
		hourStar: star(1), domStar: star(2), dowStar: star(4),
	}
	if !c.everFires() {
		return nil, fmt.Errorf("%q never fires: none of its months has such a day", text)
	}
	return c, nil
}

// lower makes ASCII letters small; any other letter is wrong anyway, and must not become one that is right.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= unicode.MaxASCII {
			return unicode.ToLower(r)
		}
		return r
	}, s)
}

// parse returns the set of values that a field lists, a bit each.
func (f field) parse(text string) (set uint64, err error) {
	for item := range strings.SplitSeq(text, ",") {
		values, step, stepped := strings.Cut(item, "/")
		a, b, err := f.ends(values)
		if err != nil {
			return 0, err
		}
		if stepped && values != "*" && !strings.Contains(values, "-") {
			return 0, fmt.Errorf("%q: a step needs * or a range before it", item)
		}
		n := 1
		if stepped {
			if n, err = number(step); err != nil || n < 1 || n > f.steps {
				return 0, fmt.Errorf("step %q: use 1 to %d", step, f.steps)
			}
		}
		if a > b {
			return 0, fmt.Errorf("range %q: it ends before it begins", values)
		}
		for v := a; v <= b; v += n {
			set |= 1 << v
		}
	}
	return set, nil
}

// ends returns the first and the last value of *, of a range, or of a single value.
func (f field) ends(values string) (a, b int, err error) {
	if values == "*" {
		if f.max == 7 {
			return f.min, 6, nil // 7 is Sunday once more
		}
		return f.min, f.max, nil
	}
	first, last, ranged := strings.Cut(values, "-")
	if a, err = f.value(first); err != nil || !ranged {
		return a, a, err
	}
	b, err = f.value(last)
	return a, b, err
}

// value reads a number or a name.
func (f field) value(text string) (int, error) {
	if len(text) == 3 && f.names != "" {
		if i := strings.Index(f.names, text); i >= 0 && i%3 == 0 {
			return f.min + i/3, nil
		}
	}
	n, err := number(text)
	if err != nil || n < f.min || n > f.max {
		return 0, fmt.Errorf("%q is not a value: use %d to %d", text, f.min, f.max)
	}
	return n, nil
}

// number reads one or two digits.
func number(text string) (int, error) {
	if len(text) < 1 || len(text) > 2 || strings.Trim(text, "0123456789") != "" {
		return 0, errors.New("not a number")
	}
	return strconv.Atoi(text)
}

// everFires reports whether there is a day that matches. Each date of the calendar falls on each day of the week, so only the
// lengths of months decide.
func (c *cron) everFires() bool {
	if !c.domStar && !c.dowStar {
		return true // any of its days of the week
	}
	for month := 1; month <= 12; month++ {
		longest := monthLength(month, true)
		if c.month&(1<<month) != 0 && bits.TrailingZeros64(c.dom) <= longest {
			return true
		}
	}
	return false
}
