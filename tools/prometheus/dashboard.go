package main

import (
	"bytes"
	"encoding/json"
)

// dashboard is what we say of a Grafana dashboard; json adds what is the same for all.
type dashboard struct {
	// Name is the file's, and the end of the uid.
	Name, Title, Description string
	Variables                []variable
	Rows                     []row
}

// variable is a choice at the top of a dashboard: one, several or all values of a label of a metric.
type variable struct{ Name, Label, Metric string }

// row is a heading and the panels below it, from left to right.
type row struct {
	Title  string
	Panels []panel
}

// panel shows the results of queries.
type panel struct {
	Title, Description string
	// Kind is timeseries, stat or table.
	Kind string
	// Unit is one of Grafana's.
	Unit string
	// Width is in the grid's columns, of which there are 24; 0: 12.
	Width int
	// Stacked is for a timeseries whose series add up.
	Stacked bool
	Queries []query
}

// query is an expression and how its series are called: text with {{label}}s; in a table, the column's name.
type query struct{ Expr, Legend string }

const (
	gridWidth   = 24
	panelHeight = 8
	statHeight  = 4
)

// Queries ask the data source that is chosen at the top of the dashboard.
func source() map[string]any { return map[string]any{"type": "prometheus", "uid": "${datasource}"} }

// json returns the dashboard as Grafana reads it.
func (d dashboard) json() ([]byte, error) {
	var panels []any
	id, y := 0, 0
	next := func() int { id++; return id }
	for _, r := range d.Rows {
		panels = append(panels, map[string]any{
			"id": next(), "type": "row", "title": r.Title, "collapsed": false, "panels": []any{}, "gridPos": grid(0, y, gridWidth, 1),
		})
		y++
		x, tallest := 0, 0
		for _, p := range r.Panels {
			width, height := p.size()
			if x+width > gridWidth {
				x, y, tallest = 0, y+tallest, 0
			}
			panels = append(panels, p.model(next(), grid(x, y, width, height)))
			x, tallest = x+width, max(tallest, height)
		}
		y += tallest
	}
	variables := []any{map[string]any{
		"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1, "current": map[string]any{}, "hide": 0,
	}}
	for _, v := range d.Variables {
		variables = append(variables, v.model())
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(map[string]any{
		"uid": "dovetail-" + d.Name, "title": d.Title, "description": d.Description, "tags": []string{"karpenter", "dovetail"},
		"schemaVersion": 39, "version": 1, "editable": true, "graphTooltip": 1, "refresh": "30s", "timezone": "",
		"time": map[string]string{"from": "now-3h", "to": "now"}, "templating": map[string]any{"list": variables}, "panels": panels,
		"annotations": map[string]any{"list": []any{}}, "links": []any{},
	})
	return text.Bytes(), err
}

func grid(x, y, w, h int) map[string]int { return map[string]int{"x": x, "y": y, "w": w, "h": h} }

func (v variable) model() map[string]any {
	values := "label_values(" + v.Metric + ", " + v.Name + ")"
	return map[string]any{
		"name": v.Name, "label": v.Label, "type": "query", "datasource": source(), "definition": values,
		"query":   map[string]any{"query": values, "refId": "StandardVariableQuery"},
		"refresh": 2, "sort": 1, "includeAll": true, "multi": true, "allValue": ".*", "current": map[string]any{"text": []string{"All"}, "value": []string{"$__all"}}, "hide": 0,
	}
}

func (p panel) size() (width, height int) {
	width, height = p.Width, panelHeight
	if width == 0 {
		width = gridWidth / 2
	}
	if p.Kind == "stat" {
		height = statHeight
	}
	return width, height
}

func (p panel) model(id int, pos map[string]int) map[string]any {
	var targets []any
	for i, q := range p.Queries {
		target := map[string]any{"refId": string(rune('A' + i)), "datasource": source(), "expr": q.Expr, "legendFormat": q.Legend, "editorMode": "code", "range": true}
		if p.Kind == "table" {
			target["instant"], target["range"], target["format"] = true, false, "table"
		}
		targets = append(targets, target)
	}
	model := map[string]any{
		"id": id, "type": p.Kind, "title": p.Title, "description": p.Description, "gridPos": pos, "datasource": source(), "targets": targets,
		"fieldConfig": map[string]any{"defaults": p.defaults(), "overrides": p.columns()}, "options": p.options(),
	}
	if p.Kind == "table" {
		model["transformations"] = []any{
			map[string]any{"id": "merge", "options": map[string]any{}},
			map[string]any{"id": "organize", "options": map[string]any{"excludeByName": map[string]bool{"Time": true}}},
		}
	}
	return model
}

func (p panel) defaults() map[string]any {
	defaults := map[string]any{"unit": p.Unit}
	if p.Kind != "timeseries" {
		return defaults
	}
	custom := map[string]any{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}
	if p.Stacked {
		custom["fillOpacity"], custom["stacking"] = 40, map[string]any{"mode": "normal", "group": "A"}
	}
	defaults["custom"], defaults["min"] = custom, 0
	return defaults
}

// columns names the columns of a table, which Grafana calls by the query.
func (p panel) columns() []any {
	overrides := []any{}
	if p.Kind != "table" {
		return overrides
	}
	for i, q := range p.Queries {
		overrides = append(overrides, map[string]any{
			"matcher":    map[string]any{"id": "byName", "options": "Value #" + string(rune('A'+i))},
			"properties": []any{map[string]any{"id": "displayName", "value": q.Legend}},
		})
	}
	return overrides
}

func (p panel) options() map[string]any {
	switch p.Kind {
	case "stat":
		return map[string]any{"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}, "colorMode": "none", "graphMode": "area"}
	case "table":
		return map[string]any{"showHeader": true}
	default:
		return map[string]any{
			"legend":  map[string]any{"displayMode": "table", "placement": "right", "calcs": []string{"lastNotNull", "max"}, "showLegend": true},
			"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
		}
	}
}
