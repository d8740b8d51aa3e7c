/* declares: bufinfo_t devinfo_t fileinfo_t fds */

typedef struct bufinfo {
	int b_flags;
	size_t b_bcount;
	caddr_t b_addr;
	uint64_t b_lblkno;
	uint64_t b_blkno;
	size_t b_resid;
	size_t b_bufsize;
	caddr_t b_iodone;
	int b_error;
	dev_t b_edev;
} bufinfo_t;

typedef struct devinfo {
	int dev_major;
	int dev_minor;
	int dev_instance;
	string dev_name;
	string dev_statname;
	string dev_pathname;
} devinfo_t;

typedef struct fileinfo {
	string fi_name;
	string fi_dirname;
	string fi_pathname;
	offset_t fi_offset;
	string fi_fs;
	string fi_mount;
	int fi_oflags;
} fileinfo_t;

translator bufinfo_t < struct bio *B > {
	b_flags = B->bi_opf & 1 ? B_WRITE : B_READ;
	b_bcount = B->bi_iter.bi_size;
	b_bufsize = B->bi_iter.bi_size;
	b_blkno = B->bi_iter.bi_sector;
	b_lblkno = B->bi_iter.bi_sector;
	b_error = B->bi_status;
	b_edev = B->bi_bdev->bd_dev;
	b_edev = B->bi_disk->major << 20 | B->bi_disk->first_minor + B->bi_partno;
};

translator bufinfo_t < struct request *R > {
	b_flags = R->cmd_flags & 1 ? B_WRITE : B_READ;
	b_bcount = R->__data_len;
	b_bufsize = R->__data_len;
	b_blkno = R->__sector;
	b_lblkno = R->__sector;
	b_edev = R->q->disk->major << 20 | R->q->disk->first_minor;
	b_edev = R->rq_disk->major << 20 | R->rq_disk->first_minor;
};

translator devinfo_t < struct bio *B > {
	dev_major = B->bi_bdev->bd_disk->major;
	dev_major = B->bi_disk->major;
	dev_minor = B->bi_bdev->bd_dev & 0xfffff;
	dev_minor = B->bi_disk->first_minor + B->bi_partno;
	dev_instance = B->bi_bdev->bd_dev & 0xfffff;
	dev_instance = B->bi_disk->first_minor + B->bi_partno;
	dev_name = B->bi_bdev->bd_disk->disk_name;
	dev_name = B->bi_disk->disk_name;
	dev_statname = B->bi_bdev->bd_disk->disk_name;
	dev_statname = B->bi_disk->disk_name;
	dev_pathname = strjoin("/dev/", B->bi_bdev->bd_disk->disk_name);
	dev_pathname = strjoin("/dev/", B->bi_disk->disk_name);
};

translator devinfo_t < struct request *R > {
	dev_major = R->q->disk->major;
	dev_major = R->rq_disk->major;
	dev_minor = R->q->disk->first_minor;
	dev_minor = R->rq_disk->first_minor;
	dev_instance = R->q->disk->first_minor;
	dev_instance = R->rq_disk->first_minor;
	dev_name = R->q->disk->disk_name;
	dev_name = R->rq_disk->disk_name;
	dev_statname = R->q->disk->disk_name;
	dev_statname = R->rq_disk->disk_name;
	dev_pathname = strjoin("/dev/", R->q->disk->disk_name);
	dev_pathname = strjoin("/dev/", R->rq_disk->disk_name);
};

/* Parts of the name that /proc/PID/fd shows; without a file "<none>". */
translator fileinfo_t < struct file *F > {
	fi_name = file_part(F, "name");
	fi_dirname = file_part(F, "directory");
	fi_pathname = file_part(F, "path");
	fi_mount = file_part(F, "mount");
	fi_offset = F == NULL ? 0 : F->f_pos;
	fi_fs = file_part(F, "type");
	fi_oflags = F == NULL ? 0 : F->f_flags;
};

/* The file whose pages of the page cache a request transfers. */
translator fileinfo_t < struct request *R > {
	fi_name = file_part(R, "name");
	fi_dirname = file_part(R, "directory");
	fi_pathname = file_part(R, "path");
	fi_mount = file_part(R, "mount");
	fi_offset = 0;
	fi_fs = file_part(R, "type");
	fi_oflags = 0;
};

inline fileinfo_t fds[int fd] = xlate <fileinfo_t> (file_of(fd));
