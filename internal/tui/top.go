package tui

import (
	"context"
	"errors"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	xterm "github.com/charmbracelet/x/term"
)

const (
	// framesASecond bounds how often the terminal is drawn.
	framesASecond = 10
	// tickEvery is how often the clock moves.
	tickEvery = time.Second
)

// program is the model as Bubble Tea knows it.
type program struct {
	*model
	cast *cast
}

// Init begins to ask.
func (p program) Init() tea.Cmd {
	clock := func() tea.Msg { return clockMsg(p.opts.Now()) }
	if p.session() != nil {
		return clock
	}
	return tea.Batch(clock, p.question())
}

// Update takes in what happened.
func (p program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		p.width, p.height = max(1, msg.Width), max(1, msg.Height)
		p.cast.resize(p.width, p.height)
	case tea.KeyPressMsg:
		return p, p.press(msg)
	case tea.PasteMsg:
		if p.typing {
			p.enter(msg)
		}
	case tea.MouseClickMsg:
		return p, p.click(msg)
	case tea.MouseWheelMsg:
		return p, p.wheel(msg)
	case clockMsg:
		p.tick(time.Time(msg))
		return p, p.after(tickEvery, func(time.Time) tea.Msg { return clockMsg(p.opts.Now()) })
	case askMsg:
		return p, p.ask()
	case answerMsg:
		return p, p.answered(msg)
	case explainedMsg:
		p.explained(msg)
	case linesMsg:
		showLines(p.model, msg)
	case noticeMsg:
		p.notice = string(msg)
	}
	return p, nil
}

// View draws.
func (p program) View() tea.View { return p.view() }

// Run shows the screens until the reader quits or the context ends.
func Run(ctx context.Context, opts Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	profile := colorprofile.ANSI
	if !opts.Colors {
		profile = colorprofile.ASCII
	}
	var drawn *cast
	if opts.Cast != nil {
		out, is := opts.Out.(xterm.File)
		if !is {
			return errors.New("--cast: no terminal is drawn on")
		}
		var err error
		if drawn, err = newCast(out, opts.Cast, opts.Now); err != nil {
			return fmt.Errorf("--cast: %w", err)
		}
		opts.Out = drawn
	}
	p := tea.NewProgram(program{newModel(ctx, opts), drawn}, tea.WithContext(ctx), tea.WithInput(opts.In), tea.WithOutput(opts.Out), tea.WithEnvironment(opts.Environ), tea.WithFPS(framesASecond), tea.WithColorProfile(profile))
	_, err := p.Run()
	if errors.Is(err, tea.ErrInterrupted) || errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		err = nil
	}
	if err == nil && drawn != nil && drawn.err != nil {
		err = fmt.Errorf("--cast: %w", drawn.err)
	}
	return err
}
