-- The cells of one call. Each is read once and written once, however many commands are
-- about it.

local cells, order = {}, {}

local function unpackmark(raw, pos)
	local kind, most, per, burst = unpack('<Bi7i7i7', raw, pos)
	return {kind = kind, max = most, per = per, burst = burst}
end

-- The cell of key as it is stored, or nil.
local function readcell(key, raw)
	if not raw or raw == '' then return nil end
	local at, used = unpack('<dd', raw, MARK + 1)
	local watched = #raw >= WATCHED and unpack('<d', raw, PLAIN + 1) or 0
	local c = {key = key, mark = sub(raw, 1, MARK), at = at, used = used, watched = watched, stored = true}
	if string.byte(raw) == WINDOW then c.log = readlog(key, raw) end
	return c
end

-- The names of cells of which those who watch them are told, when all is done.
local told = {}

-- Somebody was told that c refuses, and that may not be so any more.
local function tell(c)
	if c.watched <= now then return end
	told[#told + 1] = sub(c.key, #PREFIX + 1)
	c.watched, c.dirty = 0, true
end

-- A user may lack the right to publish; that must not undo what was done.
local function publish()
	if #told > 0 then try('PUBLISH', PREFIX .. 'freed', concat(told)) end
end

-- The cell of step s, carried over to its limit if that has changed.
local function opencell(s, t)
	local key = s.key
	local c = cells[key]
	if not c then
		if s.kind == WINDOW then
			c = readcell(key, call('GETRANGE', key, 0, NEAR - 1))
		else
			c = readcell(key, call('GET', key))
		end
		if not c then
			c = {key = key, mark = s.mark, at = 0, used = 0, watched = 0}
			if s.kind == WINDOW then c.log = newlog(key) end
		end
		cells[key] = c
		order[#order + 1] = c
		c.limit = s
	end
	if c.mark ~= s.mark then
		convert(s, unpackmark(c.mark, 1), c, t, function() return newlog(key) end)
		c.mark, c.dirty = s.mark, true
		tell(c)
	end
	c.limit = s
	return c
end

-- How long until c is as good as new, in microseconds; zero or less if it is, nil if
-- time does not bring it.
local function lifetime(l, c, t)
	local kind = l.kind
	if kind == SLOTS then return c.used == 0 and 0 or nil end
	if kind == WINDOW then
		if c.log.n == 0 then return 0 end
		return c.log:get(c.log.n) + l.per - t
	end
	if c.used <= 0 then return 0 end
	local rate = kind == COOLDOWN and 1 or l.max
	if rate <= 0 then return MOST end
	return c.at - t + ceildiv(c.used, rate)
end

-- The millisecond in which a cell ends that lives for so many microseconds more. It is not
-- told as a duration: Redis counts that from when the script began, in whole milliseconds,
-- and from version 7.4 on a key is gone as soon as its millisecond begins.
local function ending(life) return math.ceil((now + life) / 1000) end

local function writecell(c, call)
	local l, key = c.limit, c.key
	local life = lifetime(l, c, now)
	local plain = c.mark .. pack('<dd', c.at, c.used)
	if not life then return call('SET', key, plain .. tail(c.watched)) end
	life = min(life + spare, MOST)
	if life <= 0 then
		if c.stored then call('DEL', key) end
		return
	end
	local stop = ending(life)
	if l.kind == WINDOW then return c.log:write(plain .. pack('<d', c.watched), stop, call) end
	call('SET', key, plain .. tail(c.watched), 'PXAT', stop)
end

local function writecells()
	for i = 1, #order do
		local c = order[i]
		if c.dirty or c.log and c.log.touched then
			writecell(c, call)
		elseif c.marked then
			writecell(c, try)
		end
	end
end
