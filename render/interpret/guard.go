package interpret

import (
	"fmt"

	"github.com/yuin/gopher-lua/ast"
)

// Most instructions of a Lua program take about as long and as much memory as any other, so
// counting them bounds both. A few do not: "..": the string may double each time; t[k] = v and
// {[k] = v}: a list is filled up to the place k; #t looks for the end of a list; a < b compares
// strings byte by byte, and a + b reads them as numbers. guarded puts a call to a function of ours in
// their place, which counts what is really used:
//
//	a .. b .. c    ->  (concat)(a, b, c)
//	#t             ->  (length)(t)
//	t[k] = v       ->  (assign)(t, k, v)
//	{[k] = v}      ->  (create)({[(key)(k)] = v})
//	a < b          ->  (scan)(a) < b
//	a + b          ->  (scan)(a) + (scan)(b)
//
// The functions are passed to the script as arguments and kept in local variables whose names no
// script can write, so there is no way around them. t.name = v stays as it is: a program has only
// so many names.

// The guards in the order in which machines pass them.
const (
	guardConcat = "(concat)"
	guardLength = "(length)"
	guardAssign = "(assign)"
	guardCreate = "(create)"
	guardKey    = "(key)"
	guardScan   = "(scan)"
)

var guardNames = []string{guardConcat, guardLength, guardAssign, guardCreate, guardKey, guardScan}

// maxNesting is how deep the statements and expressions of a script may be nested.
const maxNesting = 200

type guarding struct {
	depth int
}

// guarded rewrites the program in place.
func guarded(chunk []ast.Stmt) (out []ast.Stmt, failure *compileError) {
	defer func() {
		if cause := recover(); cause != nil {
			tooDeep, ok := cause.(*compileError)
			if !ok {
				panic(cause)
			}
			out, failure = nil, tooDeep
		}
	}()
	g := &guarding{}
	prologue := &ast.LocalAssignStmt{Names: guardNames, Exprs: []ast.Expr{&ast.Comma3Expr{}}}
	prologue.SetLine(1)
	return append([]ast.Stmt{prologue}, g.stmts(chunk)...), nil
}

// enter counts one level of nesting; leave with defer g.enter(line)().
func (g *guarding) enter(line int) func() {
	if g.depth++; g.depth > maxNesting {
		panic(&compileError{line, fmt.Sprintf("the script is nested more than %d levels deep", maxNesting)})
	}
	return func() { g.depth-- }
}

func (g *guarding) stmts(in []ast.Stmt) []ast.Stmt {
	for n, stmt := range in {
		in[n] = g.stmt(stmt)
	}
	return in
}

func (g *guarding) stmt(stmt ast.Stmt) ast.Stmt {
	defer g.enter(stmt.Line())()
	switch s := stmt.(type) {
	case *ast.AssignStmt:
		return g.assignment(s)
	case *ast.LocalAssignStmt:
		g.exprs(s.Exprs)
	case *ast.FuncCallStmt:
		s.Expr = g.expr(s.Expr)
	case *ast.DoBlockStmt:
		g.stmts(s.Stmts)
	case *ast.WhileStmt:
		s.Condition = g.expr(s.Condition)
		g.stmts(s.Stmts)
	case *ast.RepeatStmt:
		s.Condition = g.expr(s.Condition)
		g.stmts(s.Stmts)
	case *ast.IfStmt:
		s.Condition = g.expr(s.Condition)
		g.stmts(s.Then)
		g.stmts(s.Else)
	case *ast.NumberForStmt:
		s.Init, s.Limit = scanned(g.expr(s.Init)), scanned(g.expr(s.Limit))
		if s.Step != nil {
			s.Step = scanned(g.expr(s.Step))
		}
		g.stmts(s.Stmts)
	case *ast.GenericForStmt:
		g.exprs(s.Exprs)
		g.stmts(s.Stmts)
	case *ast.FuncDefStmt:
		if s.Name.Func != nil {
			s.Name.Func = g.expr(s.Name.Func)
		}
		if s.Name.Receiver != nil {
			s.Name.Receiver = g.expr(s.Name.Receiver)
		}
		g.stmts(s.Func.Stmts)
	case *ast.ReturnStmt:
		g.exprs(s.Exprs)
	}
	return stmt
}

// assignment guards t[k] = v. Of several assignments at once, all parts are put into variables
// first: no target may change before the last value is known.
func (g *guarding) assignment(s *ast.AssignStmt) ast.Stmt {
	g.exprs(s.Lhs)
	g.exprs(s.Rhs)
	guard := false
	for _, target := range s.Lhs {
		guard = guard || computed(target) != nil
	}
	switch {
	case !guard:
		return s
	case len(s.Lhs) == 1:
		target := computed(s.Lhs[0])
		return statement(call(s, guardAssign, append([]ast.Expr{target.Object, target.Key}, s.Rhs...)...))
	}
	var (
		parts  = placed(&ast.LocalAssignStmt{}, s)
		values = placed(&ast.LocalAssignStmt{Exprs: s.Rhs}, s)
		out    = []ast.Stmt{parts, values}
	)
	keep := func(into *ast.LocalAssignStmt, part string, n int) ast.Expr {
		name := fmt.Sprintf("(%s%d)", part, n)
		into.Names = append(into.Names, name)
		return placed(&ast.IdentExpr{Value: name}, s)
	}
	for n, target := range s.Lhs {
		value := keep(values, "value", n)
		if attr, ok := target.(*ast.AttrGetExpr); ok {
			parts.Exprs = append(parts.Exprs, attr.Object, attr.Key)
			out = append(out, statement(call(s, guardAssign, keep(parts, "table", n), keep(parts, "key", n), value)))
		} else {
			out = append(out, placed(&ast.AssignStmt{Lhs: []ast.Expr{target}, Rhs: []ast.Expr{value}}, s))
		}
	}
	return placed(&ast.DoBlockStmt{Stmts: out}, s)
}

// computed is the target if it is t[k] with a k that is no constant name.
func computed(target ast.Expr) *ast.AttrGetExpr {
	attr, ok := target.(*ast.AttrGetExpr)
	if !ok {
		return nil
	}
	if _, constant := attr.Key.(*ast.StringExpr); constant {
		return nil
	}
	return attr
}

func (g *guarding) exprs(in []ast.Expr) {
	for n, expr := range in {
		in[n] = g.expr(expr)
	}
}

func (g *guarding) expr(expr ast.Expr) ast.Expr {
	defer g.enter(expr.Line())()
	switch e := expr.(type) {
	case *ast.AttrGetExpr:
		e.Object, e.Key = g.expr(e.Object), g.expr(e.Key)
	case *ast.TableExpr:
		for _, field := range e.Fields {
			if field.Key != nil {
				field.Key = g.expr(field.Key)
				if _, constant := field.Key.(*ast.StringExpr); !constant {
					field.Key = call(field.Key, guardKey, field.Key)
				}
			}
			field.Value = g.expr(field.Value)
		}
		return call(e, guardCreate, e)
	case *ast.FuncCallExpr:
		if e.Func != nil {
			e.Func = g.expr(e.Func)
		}
		if e.Receiver != nil {
			e.Receiver = g.expr(e.Receiver)
		}
		g.exprs(e.Args)
	case *ast.LogicalOpExpr:
		e.Lhs, e.Rhs = g.expr(e.Lhs), g.expr(e.Rhs)
	case *ast.RelationalOpExpr:
		e.Lhs, e.Rhs = g.expr(e.Lhs), g.expr(e.Rhs)
		if e.Operator != "==" && e.Operator != "~=" && scanned(e.Rhs) != e.Rhs {
			e.Lhs = scanned(e.Lhs) // the shorter of the two ends the comparison
		}
	case *ast.StringConcatOpExpr:
		return call(e, guardConcat, g.operands(e)...)
	case *ast.ArithmeticOpExpr:
		e.Lhs, e.Rhs = scanned(g.expr(e.Lhs)), scanned(g.expr(e.Rhs))
	case *ast.UnaryMinusOpExpr:
		e.Expr = scanned(g.expr(e.Expr))
	case *ast.UnaryNotOpExpr:
		e.Expr = g.expr(e.Expr)
	case *ast.UnaryLenOpExpr:
		return call(e, guardLength, single(g.expr(e.Expr)))
	case *ast.FunctionExpr:
		g.stmts(e.Stmts)
	}
	return expr
}

// operands are those of a chain a .. b .. c, which the parser reads from the right.
func (g *guarding) operands(e *ast.StringConcatOpExpr) []ast.Expr {
	out := []ast.Expr{single(g.expr(e.Lhs))}
	for {
		next, chained := e.Rhs.(*ast.StringConcatOpExpr)
		if !chained {
			return append(out, single(g.expr(e.Rhs)))
		}
		e = next
		out = append(out, single(g.expr(e.Lhs)))
	}
}

// scanned guards an operand that could be a string. Numbers and what arithmetic gives are none.
func scanned(operand ast.Expr) ast.Expr {
	switch operand.(type) {
	case *ast.NumberExpr, *ast.ArithmeticOpExpr, *ast.UnaryMinusOpExpr:
		return operand
	}
	return call(operand, guardScan, single(operand))
}

// single makes the expression one value, where as the last argument of a call it could be many.
func single(expr ast.Expr) ast.Expr {
	switch e := expr.(type) {
	case *ast.FuncCallExpr:
		e.AdjustRet = true
	case *ast.Comma3Expr:
		e.AdjustRet = true
	}
	return expr
}

// call is a call of the guard in place of what stood at the position.
func call(at ast.PositionHolder, guard string, args ...ast.Expr) *ast.FuncCallExpr {
	return placed(&ast.FuncCallExpr{Func: placed(&ast.IdentExpr{Value: guard}, at), Args: args}, at)
}

func statement(call *ast.FuncCallExpr) ast.Stmt {
	return placed(&ast.FuncCallStmt{Expr: call}, call)
}

// placed gives the node a position, which errors name.
func placed[N ast.PositionHolder](node N, at ast.PositionHolder) N {
	node.SetLine(at.Line())
	node.SetLastLine(at.LastLine())
	return node
}
