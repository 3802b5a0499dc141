package check

// CountersEqualRows says: whenever one looks, a batch's counters are what its rows add up to in the same snapshot.
//
// It must hold because whatever moves rows of a batch counts them in the same transaction.
const CountersEqualRows Name = "CountersEqualRows"

func countersEqualRows(x *index, f *found) {
	for i := range x.h.Of.Samples {
		sample := &x.h.Of.Samples[i]
		if sample.View != sample.Rows {
			f.add(CountersEqualRows, sample.At, 0, "batch %d, %s, says %+v, and its rows are %+v", sample.ID, sample.State, sample.View, sample.Rows)
			return // one is enough: what is lost once stays lost
		}
	}
}
