-- The roots of grants in a Cluster. Such a grant has a root in the slot of its ID, and a part
-- in each slot in which it has cells. The root alone decides what becomes of the grant;
-- the parts, which are records as those of a single server, are brought in line with it.
--
--	pending ──commit──▶ open ──release──▶ released ──retention──▶ forgotten
--	   └────abort────▶ given up ◀──void──┘
--
-- An ID whose grant was given up may be used again. That is another life of it, with a
-- larger number, which stands in the root and in each part: what is late of an earlier life
-- changes nothing of a later one.

-- owner is the process that has yet to bring the parts in line; if it dies, others do.

local PENDING = 2 -- in place of released: not every part has been taken yet
local COMMIT, ABORT, FORGET = 11, 12, 13

local function giveup(key, r)
	r.released = VOIDED
	writerecord(key, r, false) -- until its parts have been given back, and FORGET says so
end

-- Begins a life, unless there is one. ended is the life before it, if that was given up; settled
-- is 1 once somebody has joined.
local function pend(r, cmd, t)
	if r and r.released ~= VOIDED then
		if r.asked ~= cmd.asked then return CONFLICT, r end
		if r.released == PENDING and r.settled == 0 then
			r.settled = 1
			writerecord(cmd.record, r, false)
		end
		return REPLAYED, r
	end
	local before = r and r.life or 0
	r = newrecord(cmd, t)
	r.ended, r.released, r.owner = before, PENDING, cmd.owner
	r.life = max(t, cmd.at, before > 0 and before + 1 or 0)
	writerecord(cmd.record, r, false)
	return DONE, r
end

-- Ends the pending state of a life; or notes that its parts are in line with it, and forgets
-- one that was given up.
local function resolve(op, r, cmd)
	if not r or r.life ~= unpack('<i8', cmd.asked) then return UNKNOWN end
	if op == FORGET then
		r.owner = NOTHING
		if r.released == VOIDED then call('DEL', cmd.record) else writerecord(cmd.record, r, over(r, cmd) and BRIEF or nil) end
		return DONE
	end
	if r.released == VOIDED then return op == ABORT and DONE or UNKNOWN end
	if r.released ~= PENDING then return REPLAYED end
	if op == ABORT then
		r.owner = cmd.owner
		giveup(cmd.record, r)
	else
		if r.expires > 0 then r.expires = r.expires + cmd.at - r.at end
		r.released, r.settled, r.at, r.steps, r.owner = 0, 0, cmd.at, cmd.steps, NOTHING
		writeopen(cmd.record, r, cmd)
	end
	return DONE
end

-- Ends a grant that is not pending. What it says of the cells is carried out in the parts.
local function follow(op, r, cmd, t)
	local status = begin(op, r, cmd)
	if status then return status end
	r.owner = cmd.owner
	if op == VOID then giveup(cmd.record, r) else finish(op, r, cmd, t) end
	return DONE
end

local function root(op, cmd, t)
	local r, status = readrecord(cmd.record, true), UNKNOWN
	if op == TAKE then
		status, r = pend(r, cmd, t)
	elseif op >= COMMIT then
		status = resolve(op, r, cmd)
	elseif not r or r.released ~= PENDING then
		status = follow(op, r, cmd, t)
	elseif op == VOID or op == RELEASE then
		r.owner = cmd.owner
		giveup(cmd.record, r)
	end
	if not r then return pack('<BB', status, 0) end
	return pack('<BBi8i8i8i8', status, 2, r.life, r.at, r.released == 1 and 0 or r.ended, leaves(r)) .. describe(r)
end

