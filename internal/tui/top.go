package tui

import (
	"context"
	"errors"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
)

const (
	// framesASecond bounds how often the terminal is drawn.
	framesASecond = 10
	// tickEvery is how often the clock moves.
	tickEvery = time.Second
)

// program is the model as Bubble Tea knows it.
type program struct{ *model }

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
	case eventsMsg:
		listEvents(p.model, msg)
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
	p := tea.NewProgram(program{newModel(ctx, opts)}, tea.WithContext(ctx), tea.WithInput(opts.In), tea.WithOutput(opts.Out), tea.WithEnvironment(opts.Environ), tea.WithFPS(framesASecond), tea.WithColorProfile(profile))
	_, err := p.Run()
	if errors.Is(err, tea.ErrInterrupted) || errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return nil
	}
	return err
}
