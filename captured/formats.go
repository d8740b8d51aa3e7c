package captured

// formats returns the tables that have a header, by the names of their columns in all versions.
func formats() []format {
	rest := func(f format) format { f.rest = true; return f }
	boot := func(f format) format { f.sinceBoot = true; return f }
	return []format{
		define(CPUs, "mpstat", `CPU=cpu$! NODE=cpu$ %usr=usr %user=usr %nice=nice %sys=sys
			%system=sys %iowait=iowait %irq=irq %soft=soft %steal=steal %guest=guest
			%gnice=gnice %idle=idle! intr/s=intr`),
		define(CPUs, "iostat", `%user=usr! %nice=nice %system=sys! %iowait=iowait %steal=steal
			%idle=idle!`),
		boot(define(CPUs, "mpstat", `CPU=cpu$! SET=cpu$ minf=minf mjf=mjf xcal=xcal intr=intr
			ithr=ithr csw=csw icsw=icsw migr=migr smtx=smtx! srw=srw syscl=syscl usr=usr
			sys=sys wt=wt st=steal idl=idle! sze=sze`)),
		boot(define(Paging, "vmstat", `r=r! b=b! w=w swpd=swapped*1024 free=free*1024
			buff=buff*1024 cache=cache*1024 inact=inact active=active si=si*1024 so=so*1024
			bi=bi! bo=bo in=in! cs=cs! us=usr! sy=sys! id=idle! wa=iowait st=steal gu=guest`)),
		boot(define(Paging, "vmstat", `r=r! b=b! w=w! swap=swapfree*1024 free=free*1024 re=re!
			mf=mf! pi=pi*1024 po=po*1024 fr=fr de=de sr=sr! in=in cs=cs us=usr sy=sys
			id=idle`)),
		boot(define(Disks, "iostat", `Device=device$! rrqm/s wrqm/s drqm/s r/s=reads w/s=writes d/s
			f/s rsec/s=readbytes*512 wsec/s=writebytes*512 rkB/s=readbytes*1024
			wkB/s=writebytes*1024 dkB/s rMB/s=readbytes*1048576 wMB/s=writebytes*1048576 %rrqm
			%wrqm %drqm avgrq-sz avgqu-sz=queue aqu-sz=queue await=await r_await=rawait
			w_await=wawait d_await f_await rareq-sz wareq-sz dareq-sz areq-sz svctm
			%util=util!`)),
		boot(define(Disks, "iostat", `device=device$! r/s=reads! w/s=writes! kr/s=readbytes*1024
			kw/s=writebytes*1024 wait=waiting actv=active! wsvc_t=wsvc asvc_t=await svc_t=await
			%w=waitshare %b=util! s/w h/w trn tot us sy wt id`)),
		define(Disks, "sar", `DEV=device$! tps=tps rkB/s=readbytes*1024 wkB/s=writebytes*1024
			dkB/s rd_sec/s=readbytes*512 wr_sec/s=writebytes*512 areq-sz avgrq-sz
			aqu-sz=queue avgqu-sz=queue await=await! svctm %util=util!`),
		define(Devices, "sar", `IFACE=device$! rxpck/s=rxpackets! txpck/s=txpackets!
			rxkB/s=rxbytes*1024 txkB/s=txbytes*1024 rxbyt/s=rxbytes txbyt/s=txbytes rxcmp/s
			txcmp/s rxmcst/s %ifutil=util`),
		define(Devices, "sar", `IFACE=device$! rxerr/s=rxerrors! txerr/s=txerrors coll/s=collisions
			rxdrop/s=rxdrops! txdrop/s=txdrops txcarr/s rxfram/s rxfifo/s=rxfifo
			txfifo/s`),
		define(Counters, "sar", `active/s=active! passive/s=passive! iseg/s=InSegs/s
			oseg/s=OutSegs/s`),
		define(Counters, "sar", `atmptf/s estres/s retrans/s=RetransSegs/s! isegerr/s=InErrs/s!
			orsts/s`),
		define(Queue, "sar", `runq-sz=runnable! plist-sz=tasks ldavg-1=load1! ldavg-5=load5
			ldavg-15=load15 blocked=blocked`),
		define(Queue, "sar", `proc/s=forks! cswch/s=switches!`),
		define(Paging, "sar", `pgpgin/s pgpgout/s fault/s majflt/s=major! pgfree/s pgscank/s=scank
			pgscand/s=scand pgsteal/s %vmeff pgprom/s pgdem/s`),
		define(Paging, "sar", `pswpin/s=si*4096! pswpout/s=so*4096!`),
		define(Memory, "sar", `kbmemfree=free*1024! kbavail=available*1024 kbmemused=used*1024
			%memused=usedshare kbbuffers=buff*1024 kbcached=cache*1024 kbcommit=commit*1024
			%commit kbactive kbinact kbdirty kbanonpg kbslab kbkstack kbpgtbl kbvmused
			kbswpfree kbswpused %swpused kbswpcad kbmemshrd`),
		define(Memory, "sar", `kbswpfree=swapfree*1024! kbswpused=swapused*1024! %swpused=swapshare
			kbswpcad %swpcad`),
		boot(define(Devices, "nicstat", `Int=device$! rKb/s=rxbytes*1024 wKb/s=txbytes*1024
			rKB/s=rxbytes*1024 wKB/s=txbytes*1024 rMbps=rxbytes*125000 wMbps=txbytes*125000
			rPk/s=rxpackets! wPk/s=txpackets! rAvs wAvs %Util=util Sat=sat %rUtil=rxutil
			%wUtil=txutil`)),
		boot(define(Devices, "nicstat", `RdKB=rxbytes*1024! WrKB=txbytes*1024 RdPkt=rxpackets!
			WrPkt=txpackets IErr=rxerrors OErr=txerrors Coll=collisions NoCP=rxdrops Defer=defer
			%Util=util`)),
		define(Overview, "sysperfstat", `%CPU=cpu! %Mem=mem! %Disk=disk! %Net=net! CPU=cpusat
			Mem=memsat Disk=disksat Net=netsat`),
		rest(define(Processes, "top", `PID=pid! USER=user$ PR=pr$ NI=ni VIRT=virt*1024$
			RES=res*1024$ SHR=shr*1024$ SWAP=swap$ CODE=code$ DATA=data$ S=state$ %CPU=cpu!
			%MEM=mem TIME+=time$! COMMAND=command$! P=p`)),
		rest(define(Processes, "ps", `USER=user$ UID=user$ PID=pid! PPID=ppid LWP=lwp NLWP=nlwp C=cpu
			%CPU=cpu %MEM=mem VSZ=virt*1024 RSS=res*1024 SZ=sz TTY=tty$ TT=tty$
			STAT=state$ S=state$
			START=start$ STARTED=start$ STIME=start$ WCHAN=wchan$ TIME=time$ PRI=pri$ NI=ni$
			COMMAND=command$! CMD=command$!`)),
		rest(
			define(Processes, "pidstat", `UID=uid PID=pid! TGID=tgid$ TID=tid$ %usr=usr! %system=sys
			%guest=guest %wait=wait %CPU=cpu! CPU=on Command=command$!`),
		),
		rest(define(Processes, "pidstat", `UID=uid PID=pid! kB_rd/s=read*1024! kB_wr/s=write*1024!
			kB_ccwr/s iodelay Command=command$!`)),
		rest(define(Processes, "pidstat", `UID=uid PID=pid! TGID=tgid$ TID=tid$ minflt/s=minor!
			majflt/s=major! VSZ=virt*1024 RSS=res*1024 %MEM=mem Command=command$!`)),
		rest(define(Processes, "pidstat", `UID=uid PID=pid! TGID=tgid$ TID=tid$ cswch/s=voluntary!
			nvcswch/s=involuntary! Command=command$!`)),
		define(Processes, "prstat", `PID=pid! USERNAME=user$ SIZE=virt$ RSS=res$ STATE=state$
			PRI=pri$ NICE=nice$ TIME=time$ CPU=cpu! PROCESS/NLWP=command$!
			PROCESS/LWPID=command$!`),
		define(Threads, "prstat", `PID=pid! USERNAME=user$ USR=usr! SYS=sys TRP=trp TFL=tfl
			DFL=dfl LCK=lck SLP=slp LAT=lat! VCX=vcx$ ICX=icx$ SCL=scl$ SIG=sig$
			PROCESS/LWPID=command$ PROCESS/NLWP=command$`),
		define(Totals, "netstat", `Iface=device$! MTU=mtu Met=met RX-OK=rxpackets! RX-ERR=rxerrors
			RX-DRP=rxdrops RX-OVR=rxfifo TX-OK=txpackets! TX-ERR=txerrors TX-DRP=txdrops
			TX-OVR=txfifo Flg=flags$`),
		define(Totals, "netstat", `Name=device$! Mtu=mtu Net/Dest=net$ Address=address$
			Ipkts=rxpackets! Ierrs=rxerrors Idrop=rxdrops Opkts=txpackets! Oerrs=txerrors
			Collis=collisions Coll=collisions Queue=queue Drop=txdrops`),
		rest(
			define(
				Files,
				"df",
				`Filesystem=device$! Type=type$ 1K-blocks=size*1024 1024-blocks=size*1024
			kbytes=size*1024 1048576-blocks=size Size=size$ Used=used$ used=used$ Avail=avail$
			Available=avail$ avail=avail$ Use%=share$ capacity=share$ Capacity=share$ Inodes=inodes
			IUsed=iused IFree=ifree IUse%=ishare$ Mounted=mount$!`,
			),
		),
		define(Memory, "free", `total=total! used=used! free=free! shared=shared buffers=buff
			buff/cache=cache cached=cache cache=cache available=available gesamt=total
			benutzt=used belegt=used frei=free gemns.=shared Puffer/Cache=cache
			verfügbar=available`),
	}
}
