package journal

import (
	"os"
	"slices"
)

// Recall takes in what other processes wrote to the directory since the last time, or since Open: whoever
// begins to lead calls it, if replicas share one.
func (j *Journal) Recall() {
	if j == nil || j.disk == nil {
		return
	}
	j.writing.Lock()
	defer j.writing.Unlock()
	j.recall()
}

// recall takes in what is in the directory and not known yet: plans and timelines of other processes, as much
// as memory is for. Their snapshots stay on the disk. A file that cannot be read is reported, and left out: a
// controller must not fail to start because of it.
func (j *Journal) recall() {
	files, err := j.disk.unread()
	if err != nil {
		j.reported(err)
		return
	}
	for _, name := range files {
		f := newFile()
		f.skipped = [][]byte{piecesBegin}
		if err := f.readFile(name); err != nil {
			j.opts.Log.Error("reading the journal of other processes", "error", err)
			continue
		}
		j.locked(func() { j.adopt(f) })
	}
}

// adopt takes in the decisions and statements of a file.
func (j *Journal) adopt(f *File) {
	known := map[ID]bool{}
	for _, k := range j.kept {
		known[k.head.ID] = true
	}
	last := int64(0)
	for i := range f.Decisions {
		e := &f.Decisions[i]
		last = max(last, e.ID.Number)
		if e.NoSnapshot = true; !known[e.ID] {
			j.add(&kept{head: e.Head, body: e.body})
		}
	}
	slices.SortStableFunc(j.kept, func(a, b *kept) int { return a.head.At.Compare(b.head.At) })
	j.trim()
	j.ids.mu.Lock()
	j.ids.last = max(j.ids.last, last)
	j.ids.mu.Unlock()
	j.lines.adopt(f.lines)
}

// adopt takes in the statements of others. One that is there already has perhaps been said again.
func (t *timelines) adopt(others *timelines) {
	for _, e := range others.all() {
		l, isNew := t.of(e.of.identity)
		if isNew {
			l.facts, l.pool = e.of.facts, e.of.pool
		}
		at := slices.IndexFunc(l.statements, func(o *statement) bool { return o.loop == e.loop && o.what == e.what && o.first.Equal(e.first) })
		switch {
		case at < 0:
			e.of = l
			l.statements = append(l.statements, e)
			slices.SortStableFunc(l.statements, func(a, b *statement) int { return a.first.Compare(b.first) })
			t.count++
		case l.statements[at].last.Before(e.last):
			o := l.statements[at]
			o.last, o.times, o.decision = e.last, e.times, e.decision
		}
	}
	t.prune()
}

// unread returns the files that others wrote, and that are new or longer than when this was asked last.
func (d *disk) unread() ([]string, error) {
	files, err := filesOf(d.dir)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(files, func(name string) bool {
		info, err := os.Stat(name)
		if err != nil || d.read[name] == info.Size() || d.own[name] {
			return true // it may have been removed meanwhile
		}
		d.read[name] = info.Size()
		return false
	}), nil
}

// find returns a decision on disk, and the pieces that it needs; false: it is not there, or without its
// snapshot. Files are searched for it before the one that has it is read: one at a time is in memory.
func (d *disk) find(id ID) ([]*piece, *kept, bool) {
	d.reading.Lock()
	defer d.reading.Unlock()
	files, err := filesOf(d.dir)
	if err != nil {
		return nil, nil, false
	}
	for _, name := range slices.Backward(files) {
		plans := newFile()
		plans.skipped = [][]byte{piecesBegin, timelineBegin}
		if plans.readFile(name) != nil {
			continue
		}
		if _, err := plans.Find(id); err != nil {
			continue
		}
		whole := newFile()
		if whole.readFile(name) != nil {
			continue
		}
		e, err := whole.Find(id)
		if err != nil || e.NoSnapshot {
			continue
		}
		pieces, err := neededBy(e.body, e.pieces, &whole.packer)
		if err == nil {
			return pieces, &kept{head: e.Head, body: e.body}, true
		}
	}
	return nil, nil, false
}
