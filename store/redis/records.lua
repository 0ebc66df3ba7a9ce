-- The records of grants: the twin of ledger/grants.go. FORMAT.md draws them.

local NAME, STEP = 24, 40 -- a cell's key without the prefix; a step as the client writes it

local DONE, REFUSED, REPLAYED, CONFLICT, UNKNOWN = 0, 1, 2, 3, 4
local NOTHING = pack('<i8', 0) -- no calls, no owner
local VOIDED = 3 -- in place of released: the grant was given up before it was made

local function readstep(blob, pos)
	local kind, most, per, burst, n, set, keep = unpack('<Bi7i7i7i8BB', blob, pos)
	if n > MOST then n = MOST + 1 elseif n < -MOST then n = -MOST - 1 end
	return {
		kind = kind, max = most, per = per, burst = burst, n = n, set = set, keep = keep % 2 == 1,
		mark = sub(blob, pos, pos + MARK - 1), text = sub(blob, pos, pos + STEP - 1),
	}
end

-- What is remembered of a Take at time t. A part does not expire: the root does.
local function newrecord(cmd, t)
	return {
		asked = cmd.asked, at = t, ended = 0, settled = 0, released = 0, steps = cmd.steps, used = '',
		calls = cmd.calls, expires = not cmd.part and cmd.expires > 0 and t + cmd.expires or 0,
		outcome = 0, held = cmd.held, note = cmd.note,
	}
end

-- The twin of Record.Leaves: when r may be forgotten if nobody releases it, zero if it stays.
local function leaves(r)
	if r.expires == 0 then return 0 end
	local least = RETENTION * 1000
	for _, s in ipairs(r.steps) do
		if s.kind == SLOTS and s.n > 0 then return 0 end
		if s.kind == WINDOW then least = max(least, s.per) end
	end
	return max(r.expires, r.at + least)
end

-- Whether the record of a released grant is kept only so that a Take which comes late is known:
-- the twin of Record.WhileHeld. A part is what its root says.
local function over(r, cmd) return r.held == 1 and r.released == 1 and not cmd.part end

-- The record that raw is, or the root.
local function parserecord(raw, isroot)
	local asked, at, ended, calls, expires, settled, released, n, pos = unpack('<c8i8i8c8i8BBH', raw)
	local r = {
		asked = asked, at = at, ended = ended, calls = calls, expires = expires,
		settled = settled, released = released, steps = {}, outcome = 0, held = 0, note = '',
	}
	for i = 1, n do
		local s = readstep(raw, pos + NAME)
		s.name = sub(raw, pos, pos + NAME - 1)
		s.key = PREFIX .. s.name
		r.steps[i], pos = s, pos + NAME + STEP
	end
	if isroot then r.life, r.owner, pos = unpack('<i8c8', raw, pos) end
	local used = settled == 1 and released <= 1 and 8 * n or 0
	r.used, pos = sub(raw, pos, pos + used - 1), pos + used
	if pos <= #raw then
		r.outcome, r.held, pos = unpack('<BB', raw, pos)
		r.note = sub(raw, pos)
	end
	local gone = released == 0 and leaves(r) or 0
	if gone == 0 or gone > now then return r end
end

local function readrecord(key, isroot)
	local raw = call('GET', key)
	return raw and parserecord(raw, isroot) or nil
end

-- What the grant of a record stands for and when that expires, what has become of it, and its
-- steps.
local function stepstext(r)
	local parts = {r.calls .. pack('<i8BBH', r.expires, r.settled, r.released, #r.steps)}
	for i = 1, #r.steps do parts[i + 1] = r.steps[i].name .. r.steps[i].text end
	return concat(parts)
end

-- What of a record answers a command.
local function describe(r) return stepstext(r) .. r.used .. pack('<BBH', r.outcome, r.held, #r.note) .. r.note end

local function recordtext(r)
	local root = r.life and pack('<i8', r.life) .. r.owner or ''
	local plain = r.outcome == 0 and r.held == 0 and r.note == ''
	return r.asked .. pack('<i8i8', r.at, r.ended) .. stepstext(r) .. root .. r.used .. (plain and '' or pack('<BB', r.outcome, r.held) .. r.note)
end

-- Writes r, to be forgotten after ttl milliseconds; false is never, nil as before.
local function writerecord(key, r, ttl)
	local raw = recordtext(r)
	if ttl then
		call('SET', key, raw, 'PX', ttl)
	elseif ttl == false then
		call('SET', key, raw)
	else
		call('SET', key, raw, 'KEEPTTL')
	end
end

-- Writes r, which is not released. It is forgotten when it leaves; a part, which does not know
-- of all steps, when the command says.
local function writeopen(key, r, cmd)
	local gone = cmd.part and cmd.expires or leaves(r)
	if gone == 0 then return writerecord(key, r, false) end
	call('SET', key, recordtext(r), 'PXAT', math.ceil(gone / 1000))
end

-- A step that took, or still holds, nothing.
local function emptystep(s)
	s.n, s.text = 0, sub(s.text, 1, MARK) .. pack('<i8', 0) .. sub(s.text, MARK + 9)
end

local function bytime(kind) return kind == BUCKET or kind == PACE or kind == WINDOW end

-- Gives the record's steps the limits of those of steps that are about the same cells, as
-- Record.renew does.
local function renew(r, steps)
	for _, s in ipairs(r.steps) do
		for _, now in ipairs(steps) do
			if now.key == s.key and now.mark ~= s.mark then
				if now.kind ~= s.kind and not (bytime(now.kind) and bytime(s.kind)) then emptystep(s) end
				s.kind, s.max, s.per, s.burst, s.mark = now.kind, now.max, now.per, now.burst, now.mark
				s.text = s.mark .. sub(s.text, MARK + 1)
			end
		end
	end
end

-- The slots among steps that the grant of r still holds.
local function heldsteps(r, steps)
	local list = {}
	for _, s in ipairs(r.steps) do
		for _, asked in ipairs(steps) do
			if asked.key == s.key and s.kind == SLOTS and s.n > 0 then
				list[#list + 1] = s
				break
			end
		end
	end
	return list
end
