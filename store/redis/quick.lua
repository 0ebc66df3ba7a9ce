-- The common call: takes of buckets, paces and cooldowns by callers without an ID. It does
-- what the rest of the program does, to the digit, and is done before the rest is even
-- set up. The client has sorted the call: each cell is one of KEYS, each limit is said once,
-- with what does not depend on the cell:
--
--	rate     credits that a microsecond pays back
--	cost     credits of the take
--	ceiling  what a cell may owe after it, tolerance included
--	ahead    how far ahead a stamp may lie
--	span     how long those who are refused want to be told

local QUICK = 10
local MARK, WORKED = 22, 62 -- bytes of a limit, and of one with these
local PLAIN, WATCHED = 38, 46 -- of a cell, and of one with the time until which it is watched
local spread = unpack
-- What is only marked is tried: a server whose memory is full refuses, but not the answer.
local try = redis.pcall
local call, pack, unpack, sub, byte = redis.call, struct.pack, struct.unpack, string.sub, string.byte

-- The time until which a cell is watched that refuses for wait: at least for span longer,
-- and for twice that if it has to be written anyway.
local function watch(watched, wait, span)
	local need = now + wait + span
	return watched < need and need + span or watched
end

-- What follows a cell that is watched.
local function tail(watched) return watched > now and pack('<d', watched) or '' end

local function quick()
	local blob = ARGV[1]
	local op, low, high = byte(blob, 1, 3)
	if op ~= QUICK then return end
	local marks, rates, costs, ceilings, aheads, spans, start = {}, {}, {}, {}, {}, {}, 4
	for l = 0, low + 256 * high - 1 do
		marks[l], rates[l], costs[l], ceilings[l], aheads[l], spans[l], start = unpack('<c22ddddd', blob, start)
	end
	local values = call('MGET', spread(KEYS))
	local ats, debts, under, watches, writes = {}, {}, {}, {}, {} -- of the cells; under is the limit
	local cell, lim, owed, waits, n, all = {}, {}, {}, {}, 0, true -- of the steps of one command
	local out, o = {}, 0
	for pos = start, #blob, 5 do
		local a, b, c, d, more = byte(blob, pos, pos + 4)
		local i, l = a + 256 * b + 1, c + 256 * d
		local at, debt, rate = ats[i], debts[i], rates[l]
		if not at then
			local value = values[i]
			if value then
				local mark
				mark, at, debt = unpack('<c22dd', value)
				if mark ~= marks[l] then return end
				if #value >= WATCHED then watches[i] = unpack('<d', value, PLAIN + 1) end
			else
				at, debt = now, 0
			end
			under[i] = l
		elseif marks[under[i]] ~= marks[l] then
			return
		end
		if at - now > aheads[l] then at, writes[i] = now, call end
		ats[i], debts[i] = at, debt
		if at < now then
			debt = debt - (now - at) * rate
			if debt < 0 then debt = 0 end
		end
		local over, wait = debt + costs[l] - ceilings[l], -1
		if over > 0 then
			local part = math.fmod(over, rate)
			wait = part == 0 and over / rate or (over - part) / rate + 1
			all = false
			if spans[l] > 0 then
				local watched = watches[i] or 0
				watches[i] = watch(watched, wait, spans[l])
				if watches[i] ~= watched then writes[i] = writes[i] or try end
			end
		end
		n = n + 1
		cell[n], lim[n], owed[n], waits[n] = i, l, debt, wait
		if more == 0 then
			for j = 1, n do
				i = cell[j]
				local cost = costs[lim[j]]
				if all and cost > 0 then
					if ats[i] < now then ats[i] = now end
					debts[i], writes[i] = owed[j] + cost, call
				end
				out[o + 1], out[o + 2], out[o + 3] = waits[j], ats[i], debts[i]
				o = o + 3
			end
			n, all = 0, true
		end
	end
	for i, key in ipairs(KEYS) do
		local write = writes[i]
		if write then
			local l, at, debt = under[i], ats[i], debts[i]
			if debt > 0 or spare > 0 then
				local stop = math.ceil((at + debt / rates[l] + spare) / 1000) -- cells.lua says why it is no duration
				local value = pack('<c22dd', marks[l], at, debt) .. tail(watches[i] or 0)
				write('SET', key, value, 'PXAT', stop)
			elseif values[i] then
				write('DEL', key)
			end
		end
	end
	return pack('<i8' .. string.rep('d', o), now, spread(out, 1, o))
end

local text = quick()
if text then return text end
