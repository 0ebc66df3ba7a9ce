-- A call: its commands one after the other, or a look at a portion of all cells. What they
-- and the answers look like is drawn in FORMAT.md.

local function level(s, t)
	local c = s.cell
	if c.log then return pack('<ddd', levelwindow(s, c, t)) end
	return pack('<ddd', c.at, c.used, 0)
end

-- Reads a command, and the keys it is about from the k-th on.
local function readcommand(blob, k)
	local _, flags, n, at, delay, pos = unpack('<BBHi8i8', blob)
	local cmd = {flags = flags, at = at, delay = delay, steps = {}, brief = flags % 8 >= 4, calls = NOTHING, expires = 0, outcome = 0, held = 0, note = ''}
	cmd.root, cmd.part = flags % 32 >= 16, flags % 64 >= 32
	if cmd.root then cmd.owner = sub(blob, 13, 20) end
	if flags % 4 >= 2 then
		cmd.record, cmd.asked, k, pos = KEYS[k], sub(blob, pos, pos + 7), k + 1, pos + 8
	end
	if flags % 128 >= 64 then cmd.calls, cmd.expires, pos = unpack('<c8i8', blob, pos) end
	if flags >= 128 then
		local length
		cmd.outcome, cmd.held, length, pos = unpack('<BBH', blob, pos)
		cmd.note, pos = sub(blob, pos, pos + length - 1), pos + length
	end
	for i = 1, n do
		local name = cmd.root and sub(blob, pos, pos + NAME - 1)
		if name then pos = pos + NAME else name, k = sub(KEYS[k], #PREFIX + 1), k + 1 end
		local s = readstep(blob, pos)
		s.name, s.key = name, PREFIX .. name
		cmd.steps[i], pos = s, pos + STEP
	end
	cmd.used = sub(blob, pos)
	return cmd, k
end

-- A portion of the cells whose keys are like the pattern: full again if a reset is asked
-- for, else as they are; and where the next portion begins.
local function visit(op, cursor, pattern)
	local page = call('SCAN', cursor, 'MATCH', pattern, 'COUNT', 2000)
	local list = {}
	for _, key in ipairs(page[2]) do
		local raw = redis.pcall('GETRANGE', key, 0, NEAR - 1)
		local c = type(raw) == 'string' and readcell(key, raw) -- not one on its way to another node
		if c then
			local l = unpackmark(c.mark, 1)
			local life = lifetime(l, c, now)
			if op == SCAN and (not life or life > 0) then
				l.cell = c
				list[#list + 1] = sub(key, #PREFIX + 1) .. c.mark .. level(l, now)
			elseif op == RESET and life and life > 0 then
				call('DEL', key)
				tell(c)
				list[#list + 1] = ''
			end
		end
	end
	return pack('<HI4', #page[1], #list) .. page[1] .. concat(list)
end

-- A portion of the records of grants whose keys are like the pattern, of those that somebody wants
-- to see: the twin of Record.Live.
local function list(cursor, pattern, isroot)
	local page = call('SCAN', cursor, 'MATCH', pattern, 'COUNT', 500)
	local found = {}
	for _, key in ipairs(page[2]) do
		local raw = redis.pcall('GET', key)
		local r = type(raw) == 'string' and raw ~= '' and parserecord(raw, isroot)
		if r and (r.released == 0 or r.released == 1 and r.expires > 0 and r.held == 0) then
			local ended = r.released == 1 and r.ended or 0
			found[#found + 1] = sub(key, #PREFIX + 1) .. r.asked .. pack('<i8i8', r.at, ended) .. describe(r)
		end
	end
	return pack('<HI4', #page[1], #found) .. page[1] .. concat(found)
end

local function answer(op, cmd, t)
	if cmd.root then return root(op, cmd, t) end
	local status, all, r = DONE, true, nil
	if cmd.flags % 16 >= 8 then
		status = once(op, cmd, t)
	elseif cmd.record then
		status, all, r = named(op, cmd, t)
	elseif op == FIND then
		status = UNKNOWN
	else
		status, all = run(op, cmd.steps, t, cmd.at, cmd.used, cmd.delay)
	end
	local decided = op <= PEEK and status <= REFUSED
	local parts = {pack('<BB', status, (decided and not all and 1 or 0) + (r and 2 or 0))}
	if r then parts[2] = pack('<i8', r.at) .. describe(r) end
	if decided and not all then
		for i = 1, #cmd.steps do parts[#parts + 1] = pack('<d', cmd.steps[i].verdict) end
	end
	if decided and cmd.flags % 2 == 1 then
		for i = 1, #cmd.steps do parts[#parts + 1] = level(cmd.steps[i], t) end
	end
	return concat(parts)
end

-- A call of quick.lua that has to be looked at more closely, because the limit of a cell
-- has changed.
local function closely(blob)
	local count, pos = unpack('<H', blob, 2)
	local limits, steps, out = {}, {}, {pack('<i8', now)}
	for l = 0, count - 1 do
		limits[l], pos = sub(blob, pos, pos + WORKED - 1), pos + WORKED
	end
	while pos <= #blob do
		local i, l, more
		i, l, more, pos = unpack('<HHB', blob, pos)
		local s = unpackmark(limits[l], 1)
		local _, cost, _, _, span = unpack('<ddddd', limits[l], MARK + 1)
		s.n, s.set, s.key, s.mark = cost / max(1, s.per), 0, KEYS[i + 1], sub(limits[l], 1, MARK)
		steps[#steps + 1] = s
		if more == 0 then
			run(TAKE, steps, now, now, '', span)
			for _, s in ipairs(steps) do out[#out + 1] = pack('<ddd', s.verdict, s.cell.at, s.cell.used) end
			steps = {}
		end
	end
	return concat(out)
end

if byte(ARGV[1]) >= RESET and byte(ARGV[1]) <= SCAN then
	local found = visit(byte(ARGV[1]), ARGV[2], ARGV[3])
	publish()
	return pack('<i8', now) .. found
end

if byte(ARGV[1]) == LIST then return pack('<i8', now) .. list(ARGV[2], ARGV[3], ARGV[4] == '1') end

local function each()
	local out, k = {pack('<i8', now)}, 1
	for i = 1, #ARGV do
		local cmd
		cmd, k = readcommand(ARGV[i], k)
		local answered = answer(byte(ARGV[i]), cmd, now)
		out[#out + 1] = pack('<I4', #answered) .. answered
	end
	return concat(out)
end

local answered = byte(ARGV[1]) == QUICK and closely(ARGV[1]) or each()
writecells()
publish()
return answered
