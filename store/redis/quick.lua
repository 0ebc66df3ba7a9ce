-- The common call: takes of buckets, paces and cooldowns by callers without an ID. It does
-- what the rest of the program does, to the digit, and is done before the rest is even
-- set up. The client has worked out what does not depend on the cell:
--
--	rate     credits that a microsecond pays back
--	cost     credits of the take
--	ceiling  what a cell may owe after it, tolerance included
--	ahead    how far ahead a stamp may lie
--
-- The first number of a command is how long those whom it refuses want to be told.

local QUICK, QUICKLY = 10, 11 -- the op, and where the steps begin
local MARK, WORKED = 22, 54 -- bytes of a limit, and of a step
local PLAIN, WATCHED = 38, 46 -- of a cell, and of one with the time until which it is watched
local call, pack, unpack, sub = redis.call, struct.pack, struct.unpack, string.sub

-- The time until which a cell is watched that refuses for wait: at least for span longer,
-- and for twice that if it has to be written anyway.
local function watch(watched, wait, span)
	local need = now + wait + span
	return watched < need and need + span or watched
end

-- What follows a cell that is watched.
local function tail(watched) return watched > now and pack('<d', watched) or '' end

local function quick()
	local cells, dirty = {}, {} -- a cell is at, used, mark, rate, whether it is stored, and watched
	local waits, costs, named = {}, {}, {}
	local out, k = {pack('<i8', now)}, 0
	for i = 1, #ARGV do
		local blob = ARGV[i]
		local op, n = string.byte(blob, 1, 2)
		if op ~= QUICK then return end
		local span, all, pos = unpack('<d', blob, 3), true, QUICKLY
		for j = 1, n do
			local key, mark = KEYS[k + j], sub(blob, pos, pos + MARK - 1)
			local rate, cost, ceiling, ahead = unpack('<dddd', blob, pos + MARK)
			pos = pos + WORKED
			local c = cells[key]
			if not c then
				local raw = call('GET', key)
				if raw then
					if sub(raw, 1, MARK) ~= mark then return end
					local at, used = unpack('<dd', raw, MARK + 1)
					local watched = #raw >= WATCHED and unpack('<d', raw, PLAIN + 1) or 0
					c = {at, used, mark, rate, true, watched}
				else
					c = {now, 0, mark, rate, false, 0}
				end
				cells[key] = c
			elseif c[3] ~= mark then
				return
			end
			local at, used = c[1], c[2]
			if at < now then
				used = used - (now - at) * rate
				c[1], c[2] = now, used > 0 and used or 0
			elseif at - now > ahead then
				c[1] = now
				if not dirty[key] then dirty[key], dirty[#dirty + 1] = true, key end
			end
			local over = c[2] + cost - ceiling
			local wait = -1
			if over > 0 then
				local part = math.fmod(over, rate)
				wait = part == 0 and over / rate or (over - part) / rate + 1
				all = false
				local watched = span > 0 and watch(c[6], wait, span) or c[6]
				if watched ~= c[6] then
					c[6] = watched
					if not dirty[key] then dirty[key], dirty[#dirty + 1] = true, key end
				end
			end
			named[j], costs[j], waits[j] = key, cost, wait
		end
		for j = 1, n do
			local key = named[j]
			local c = cells[key]
			if all and costs[j] > 0 then
				c[2] = c[2] + costs[j]
				if not dirty[key] then dirty[key], dirty[#dirty + 1] = true, key end
			end
			out[#out + 1] = pack('<ddd', waits[j], c[1], c[2])
		end
		k = k + n
	end
	for i = 1, #dirty do
		local key = dirty[i]
		local c = cells[key]
		local at, used = c[1], c[2]
		if used > 0 or spare > 0 then
			local life = at - now + used / c[4] + spare
			call('SET', key, pack('<c22dd', c[3], at, used) .. tail(c[6]), 'PX', math.ceil(life / 1000))
		elseif c[5] then
			call('DEL', key)
		end
	end
	return table.concat(out)
end

local text = quick()
if text then return text end
