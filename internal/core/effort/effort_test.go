package effort

import "testing"

func TestRunEndsWhenTheMeterIsEmpty(t *testing.T) {
	t.Parallel()
	m, rounds := New(10), 0
	if m.Run(func() {
		for range 100 {
			m.Spend(3)
			rounds++
		}
	}) {
		t.Error("Run reports that work beyond the meter came to its end")
	}
	if rounds != 3 {
		t.Errorf("%d turns of 3 units were taken from 10, want 3", rounds)
	}
}

func TestWorkWithinTheMeterEnds(t *testing.T) {
	t.Parallel()
	m := New(10)
	if !m.Run(func() { m.Spend(10) }) {
		t.Error("Run reports that the last unit was too much")
	}
	if got := m.Spent(); got != 10 {
		t.Errorf("Spent() = %d, want 10", got)
	}
}

func TestAnOuterMeterEndsTheOuterWork(t *testing.T) {
	t.Parallel()
	outer, inner := New(1), New(100)
	innerEnded := false
	if outer.Run(func() { inner.Run(func() { outer.Spend(2) }); innerEnded = true }) {
		t.Error("the outer work came to its end")
	}
	if innerEnded {
		t.Error("the inner Run went on after the outer meter was empty")
	}
}

func TestOtherPanicsPass(t *testing.T) {
	t.Parallel()
	defer func() {
		if r := recover(); r != "a bug" {
			t.Errorf("recovered %v, want the panic of the work", r)
		}
	}()
	New(1).Run(func() { panic("a bug") })
}

func TestTheNilMeterAllowsEverything(t *testing.T) {
	t.Parallel()
	var m *Meter
	m.Spend(1 << 40)
	if m.Spent() != 0 {
		t.Error("the nil meter counts")
	}
}
