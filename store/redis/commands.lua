-- The commands: the twin of ledger/ledger.go.

local TAKE, PEEK, SETTLE, RELEASE, FREE, VOID, COOL, FIND, RESET, SCAN, LIST = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 14

local function fits(op, s, t, n)
	local c = s.cell
	if s.kind ~= WINDOW then
		local verdict = fitcell(s, c, t, n)
		if op == TAKE and verdict ~= NEVER and s.kind ~= SLOTS and heal(s, c, t) then c.dirty = true end
		return verdict
	end
	local before = c.at
	local verdict = fitwindow(s, c, t, n)
	if c.at ~= before then c.dirty = true end
	return verdict
end

local function taken(s, t, n)
	local c = s.cell
	c.dirty = true
	if s.kind == WINDOW then
		local verdict, at = fitwindow(s, c, t, n)
		if verdict == PASS and n > 0 then debit(s, c, at, n) end
		return
	end
	local verdict, at, used = fitcell(s, c, t, n)
	if verdict == PASS then c.at, c.used = at, used end
end

local function give(s, t, at, n)
	local c = s.cell
	c.dirty = true
	if n > 0 then tell(c) end
	n = min(max(n, -MOST), MOST)
	if s.kind == WINDOW then return givewindow(s, c, t, at, n) end
	givecell(s, c, t, n)
end

-- What the i-th step and those before it take from its cell.
local function together(steps, i)
	local s = steps[i]
	local sum = s.n
	for j = 1, i - 1 do
		if steps[j].cell == s.cell and sum >= 0 then sum = sum + max(0, steps[j].n) end
	end
	return sum
end

local function setfits(steps, set)
	for i = 1, #steps do
		if steps[i].set == set and steps[i].verdict ~= PASS then return false end
	end
	return true
end

-- Marks the cells that refuse, so that whoever gives back to them tells it.
local function watchcells(steps, span)
	for i = 1, #steps do
		local s = steps[i]
		local c, wait = s.cell, s.verdict
		if wait >= 0 then
			local watched = watch(c.watched, wait, span)
			if watched ~= c.watched then c.watched, c.marked = watched, true end
		end
	end
end

-- Takes every enforced step or none, then each shadow set that fits whole.
local function decide(op, steps, t, span)
	local status, all = DONE, true
	for i = 1, #steps do
		local s = steps[i]
		s.verdict = fits(op, s, t, i == 1 and s.n or together(steps, i))
		if s.verdict ~= PASS then
			all = false
			if s.set == 0 then status = REFUSED end
		end
	end
	if op == TAKE and status == REFUSED and span > 0 then watchcells(steps, span) end
	if op == TAKE and status == DONE then
		for i = 1, #steps do
			local s = steps[i]
			if s.set ~= 0 and not all and not setfits(steps, s.set) then emptystep(s) end
			taken(s, t, s.n)
		end
	end
	return status, all
end

local function settle(s, t, at, used)
	if used < 0 or s.kind == SLOTS or s.set ~= 0 and s.n == 0 then return end
	local back = s.n - used
	if back > 0 and s.keep then return end
	give(s, t, at, back)
end

local function run(op, steps, t, at, used, delay)
	for i = 1, #steps do steps[i].cell = opencell(steps[i], t) end
	if op == TAKE or op == PEEK then return decide(op, steps, t, delay) end
	if op == SETTLE and #used ~= 8 * #steps then return CONFLICT end
	for i = 1, #steps do
		local s = steps[i]
		if op == SETTLE then
			settle(s, t, at, (unpack('<i8', used, 8 * i - 7)))
		elseif op == VOID then
			give(s, t, at, s.n)
		elseif op == COOL then
			s.cell.dirty = true
			cool(s, s.cell, t, delay)
		elseif s.kind == SLOTS then
			give(s, t, at, s.n)
		end
	end
	return DONE
end

-- Looks up the record of a command. It returns how that answers it; if it does not, nil,
-- and the steps whose cells are to be changed.
local function begin(op, r, cmd)
	if op == TAKE then
		if not r then return nil, cmd.steps end
		if r.released == VOIDED or r.asked ~= cmd.asked then return CONFLICT end
		return REPLAYED
	end
	if not r or r.released == VOIDED or over(r, cmd) then return UNKNOWN end
	if op == FIND then return DONE end
	if op == SETTLE and r.settled == 1 then
		return r.used == cmd.used and r.outcome == cmd.outcome and REPLAYED or CONFLICT
	end
	if op == SETTLE and #cmd.used ~= 8 * #r.steps or op == VOID and r.settled == 1 and r.released == 0 then
		return CONFLICT
	end
	if op ~= SETTLE and r.released == 1 then return REPLAYED end
	renew(r, cmd.steps)
	if op == FREE then return nil, heldsteps(r, cmd.steps) end
	return nil, r.steps
end

-- Records what has been done.
local function finish(op, r, cmd, t)
	local key = cmd.record
	if op == TAKE then
		r = newrecord(cmd, t)
		if cmd.brief then r.ended = -1 end
		return writeopen(key, r, cmd)
	end
	if op == VOID or op == RELEASE and cmd.brief then
		call('DEL', key)
	elseif op == RELEASE then
		r.released, r.ended = 1, t
		writerecord(key, r, r.held == 1 and not cmd.root and BRIEF or RETENTION) -- a root stays until its parts are told
	elseif op == SETTLE then
		r.settled, r.used, r.outcome = 1, cmd.used, cmd.outcome
		if r.released == 0 then writeopen(key, r, cmd) else writerecord(key, r) end
	elseif op == FREE then
		for _, s in ipairs(heldsteps(r, cmd.steps)) do emptystep(s) end
		writeopen(key, r, cmd)
	end
end

-- Whether a part that is there is of a later life of the ID than the command. If it is of an
-- earlier one, what it still holds is given back, and it is nothing any more.
local function lives(r, cmd, t)
	if not r or r.asked == cmd.asked then return r, false end
	if unpack('<i8', r.asked) > unpack('<i8', cmd.asked) then return r, true end
	renew(r, cmd.steps)
	local over = unpack('<i8', r.asked) == cmd.at -- and was given up, as the root knows
	if r.released == 0 then run(over and VOID or RELEASE, r.steps, t, r.at, '', 0) end
	call('DEL', cmd.record)
	return nil, false
end

local function named(op, cmd, t)
	local r = readrecord(cmd.record)
	local late = false
	if cmd.part then r, late = lives(r, cmd, t) end
	local status, steps = UNKNOWN, nil
	if not late or op == TAKE then status, steps = begin(op, r, cmd) end
	local all = true
	if not status then
		status, all = run(op, steps, t, r and r.at or t, cmd.used, cmd.delay)
		if status == DONE then finish(op, r, cmd, t) end
	elseif status == UNKNOWN and op == VOID and (cmd.brief or cmd.part and not late) then
		local none = newrecord(cmd, t)
		none.ended, none.released, none.steps = t, VOIDED, {}
		writerecord(cmd.record, none, BRIEF)
	end
	if status == UNKNOWN or cmd.brief or op == TAKE and status == CONFLICT then r = nil end
	return status, all, r
end

-- A command that gives back without a record of a grant, sent again until it is known
-- to have arrived.
local function once(op, cmd, t)
	if not call('SET', cmd.record, '', 'NX', 'PX', BRIEF) then return REPLAYED, true end
	return run(op, cmd.steps, t, cmd.at, cmd.used, cmd.delay)
end
