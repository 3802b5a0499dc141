package poll

import "math"

const (
	rounding = 1e-9 // error of sums of shares
	// headroom is how many times its load is kept for a lane that has no more due rows at the moment: its rows do not come
	// evenly.
	headroom = 1.5
	// mostly is the part of a lane's attempts that time out or stall from which on it is lent less. If all do, it is lent nothing.
	mostly = 0.5
	// stuckTurns is the part of its share down to which the load of such a lane has to fall, where there are fewer slots than lanes.
	stuckTurns = 0.5
)

// demand is what a lane's share of the slots follows from.
type demand struct {
	most  int     // attempts at once by declaration; > 0
	held  int     // slots in use, and those that what is queued would take
	room  int     // how many more attempts its target's breaker lets start; negative: no bound
	due   bool    // more of its rows are due than it holds
	load  float64 // slots that it has used lately, on average
	stuck float64 // part of its latest attempts that timed out or stalled, 0 to 1
}

// share divides the slots among the lanes by max-min fairness: none of them gets more while another one that needs more has less.
// It returns, in allow, how many attempts of each lane may run at once; they may be more than there are slots in sum.
//
// A slot is lent for as long as an attempt takes, and cannot be taken back. So a lane that has no more due rows keeps what it has
// used lately: a lane whose attempts hang would otherwise collect the slots that others leave free for moments. For a lane
// that has used none, one slot is kept where keep is set.
//
// claims is scratch space; both slices have the length of demands.
func share(slots int, keep bool, demands []demand, claims []float64, allow []int) {
	for i := range demands {
		claims[i] = float64(demands[i].most)
	}
	own, _ := level(float64(slots), claims) // the level if all of them had due rows
	for i := range demands {
		claims[i] = demands[i].claim(own)
	}
	total := slots
	if keep {
		total = max(slots-1, 1)
	}
	fair, spare := level(float64(total), claims)
	for i := range demands {
		n := fair
		if math.IsInf(fair, 1) {
			n = claims[i] + spare
		}
		claims[i] = max(own, n) // from here on the lane's share
		allow[i] = demands[i].allowance(own, claims[i])
	}
	takeTurns(slots, demands, claims, allow)
}

// takeTurns has lanes whose share is less than a slot use one for a part of the time only: each of them waits after an attempt
// until its load has fallen to its share, as long as the others can use all slots meanwhile.
func takeTurns(slots int, demands []demand, shares []float64, allow []int) {
	waits := func(i int, times float64) bool {
		d := &demands[i]
		if d.lendable() < 1 {
			times = stuckTurns
		}
		return d.due && shares[i] < 1 && d.load > times*shares[i]
	}
	for times := 1.0; ; times *= 1.5 {
		due, left := 0, 0
		for i := range demands {
			if !demands[i].due {
				continue
			}
			due++
			if !waits(i, times) {
				left++
			}
		}
		if left < min(slots, due) && times < float64(slots*len(demands)) {
			continue // above that, only lanes wait whose attempts mostly time out
		}
		for i := range demands {
			if waits(i, times) {
				allow[i] = 0
			}
		}
		return
	}
}

// level returns the level up to which claims can be met from total. If all of them can be met, the level is infinite, and
// spare is what is left.
func level(total float64, claims []float64) (level, spare float64) {
	level = total / float64(len(claims))
	for {
		met, unmet := 0.0, 0
		for _, c := range claims {
			if c <= level {
				met += c
			} else {
				unmet++
			}
		}
		if unmet == 0 {
			return math.Inf(1), total - met
		}
		next := (total - met) / float64(unmet)
		if next <= level { // no claim lies between the two
			return level, 0
		}
		level = next
	}
}

// lendable returns how much of what lies above a lane's own share can be lent to it, from 0 to 1.
func (d *demand) lendable() float64 {
	return min((1-d.stuck)/(1-mostly), 1)
}

// limit returns the most slots that a lane can get.
func (d *demand) limit(own float64) float64 {
	most := float64(d.most)
	own = min(own, most)
	return own + (most-own)*d.lendable()
}

// claim returns how many slots the others have to leave to a lane.
func (d *demand) claim(own float64) float64 {
	c := max(float64(d.held), headroom*d.load)
	if d.due {
		c = float64(d.most)
		if d.room >= 0 {
			c = float64(d.held + d.room)
		}
	}
	return min(c, d.limit(own))
}

// allowance returns how many attempts of a lane with that share may run at once. own is the part of its share that is not lent.
func (d *demand) allowance(own, share float64) int {
	n := min(share, d.limit(own))
	if d.lendable() == 1 {
		n = math.Ceil(n - rounding)
	}
	return max(int(n+rounding), 1)
}
